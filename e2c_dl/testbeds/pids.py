"""Processes by more than their number, which is given again: pid and start name one for good."""

from __future__ import annotations

from pathlib import Path


def start_ticks(pid: int) -> int | None:
    """When ``pid`` started, in clock ticks since boot; None if there is no such process, or it is a zombie."""
    try:
        stat = Path(f"/proc/{pid}/stat").read_text(encoding="utf-8", errors="replace")
    except (FileNotFoundError, ProcessLookupError):
        return None
    state, *fields = stat.rpartition(")")[2].split()  # the command's name, in parentheses, may hold anything
    return None if state in "ZX" else int(fields[18])  # starttime is field 22 of proc(5), and ``state`` its third
