"""Ask machines over SSH with the program ``host_side``, which needs nothing of this project on them."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path

from e2c_dl.testbeds import programs
from e2c_dl.testbeds.base import Access

BASE_PYTHON = "python3"
TIMEOUT_S = 40.0


def ask(accesses: Sequence[Access], verb: str, arguments: Mapping[str, Sequence[str]]) -> dict[str, programs.Answer]:
    """host -> its answer to ``verb`` with ``arguments[host]``."""
    program = (Path(__file__).parent / "host_side.py").read_text(encoding="utf-8")

    def one(access: Access) -> programs.Answer:
        argv = programs.ssh_argv(access, BASE_PYTHON, "-", verb, *arguments[access.name])
        return programs.answer(access, argv, program, TIMEOUT_S)

    return programs.on_all(accesses, one)
