"""What keeps this host's clock right: the kernel's own word (adjtimex), chrony, systemd's, ptp4l, PTP devices, daemons.

A trace aligns clocks by itself and needs none of it. It is recorded, before training and after, since a daemon that
slews a clock changes its pace, and one that steps it moves the wall clock, by which other programs' traces are placed.
"""

from __future__ import annotations

import ctypes
import os
import re
import shutil
import time
from collections.abc import Callable, Sequence
from contextlib import suppress
from pathlib import Path
from typing import Any

from e2c_dl.trace.clocks.programs import run_unseen

WITHIN_S = 2.0
"""A program is waited for no longer."""
DAEMONS = ("chronyd", "ntpd", "ntpsec", "systemd-timesyn", "ptp4l", "phc2sys", "openntpd", "timemaster")
"""As /proc tells them: at most 15 characters."""

_ERROR = 5  # what adjtimex returns for a clock that is not synchronised
_NANOSECONDS, _UNSYNCHRONISED = 0x2000, 0x40
_SCALED_PPM = 65536.0
_TRACKING = (
    "reference", "source", "stratum", "reference_time_s", "offset_s", "last_offset_s", "rms_offset_s",
    "frequency_ppm", "residual_ppm", "skew_ppm", "root_delay_s", "root_dispersion_s", "update_interval_s", "leap",
)  # fmt: skip

_PTP = ("pmc", "-u", "-b", "0", "GET TIME_STATUS_NP")  # of ptp4l on this host alone, by its socket
_PTP_ANSWER = re.compile(r"RESPONSE MANAGE?MENT TIME_STATUS_NP")  # former versions write it so

Run = Callable[[Sequence[str]], str]


class Unknown(Exception):
    """Why something cannot be told, in a line."""


class _Timex(ctypes.Structure):
    _fields_ = [
        ("modes", ctypes.c_uint), ("offset", ctypes.c_long), ("freq", ctypes.c_long), ("maxerror", ctypes.c_long),
        ("esterror", ctypes.c_long), ("status", ctypes.c_int), ("constant", ctypes.c_long),
        ("precision", ctypes.c_long), ("tolerance", ctypes.c_long), ("time_s", ctypes.c_long),
        ("time_part", ctypes.c_long), ("tick", ctypes.c_long), ("ppsfreq", ctypes.c_long), ("jitter", ctypes.c_long),
        ("shift", ctypes.c_int), ("stabil", ctypes.c_long), ("jitcnt", ctypes.c_long), ("calcnt", ctypes.c_long),
        ("errcnt", ctypes.c_long), ("stbcnt", ctypes.c_long), ("tai", ctypes.c_int), ("later", ctypes.c_int * 11),
    ]  # fmt: skip


def timekeeping(root: Path = Path("/"), within_s: float = 3 * WITHIN_S) -> dict[str, Any]:
    """All of it as JSON values for facts.json; ``unknown`` says of each part that could not be told why.

    Programs that it asks get ``within_s`` together.

    >>> timekeeping()  # doctest: +SKIP
    {'kernel': {'synchronised': True, ...}, 'daemons': ['chronyd'], 'unknown': {'chrony': 'not installed'}}
    """
    give_up_s = time.monotonic() + within_s

    def run(command: Sequence[str]) -> str:
        return said(command, give_up_s - time.monotonic())

    parts: dict[str, Callable[[], Any]] = {
        "kernel": kernel,
        "clock_source": lambda: clock_source(root),
        "daemons": lambda: daemons(root),
        "chrony": lambda: chrony(run),
        "systemd": lambda: systemd(run, root),
        "ptp": lambda: ptp(root),
        "ptp4l": lambda: ptp4l(run),
    }
    told: dict[str, Any] = {}
    unknown = {}
    for name, part in parts.items():
        try:
            told[name] = part()
        except Unknown as reason:
            unknown[name] = str(reason)
    return {**told, "unknown": unknown}


def kernel() -> dict[str, Any]:
    """How far the kernel thinks its wall clock is off, and how it is slewed. Raises: Unknown."""
    state = _Timex()  # modes 0: nothing is changed
    library = ctypes.CDLL(None, use_errno=True)
    if not hasattr(library, "adjtimex"):
        raise Unknown("there is no adjtimex here")
    answer = library.adjtimex(ctypes.byref(state))
    if answer < 0:
        raise Unknown(f"adjtimex: {os.strerror(ctypes.get_errno())}")
    unit_s = 1e-9 if state.status & _NANOSECONDS else 1e-6
    return {
        "synchronised": answer != _ERROR and not state.status & _UNSYNCHRONISED,
        "offset_s": state.offset * unit_s,
        "frequency_ppm": state.freq / _SCALED_PPM,
        "most_error_s": state.maxerror / 1e6,
        "estimated_error_s": state.esterror / 1e6,
        "tick_us": state.tick,
        "tai_offset_s": state.tai,
    }


def clock_source(root: Path) -> str:
    """The hardware by which the kernel counts time. Raises: Unknown."""
    return _text(root / "sys/devices/system/clocksource/clocksource0/current_clocksource")


def daemons(root: Path) -> list[str]:
    """Those that run and keep clocks; of other hosts' too where they share this one's processes."""
    names = set()
    for process in (root / "proc").glob("[0-9]*"):
        with suppress(OSError):  # it has ended meanwhile
            names.add((process / "comm").read_text().strip())
    return sorted(names.intersection(DAEMONS))


def chrony(run: Run) -> dict[str, Any]:
    """What chrony follows and how well. Raises: Unknown."""
    cells = run(["chronyc", "-c", "tracking"]).strip().split(",")
    if len(cells) != len(_TRACKING):
        raise Unknown(f"chronyc tells {len(cells)} values of tracking, not {len(_TRACKING)}")
    try:
        return {
            name: cell if name in ("reference", "source", "leap") else float(cell)
            for name, cell in zip(_TRACKING, cells, strict=True)
        }
    except ValueError as error:
        raise Unknown(f"chronyc: {error}") from error


def systemd(run: Run, root: Path = Path("/")) -> dict[str, bool]:
    """Whether systemd keeps the clock by NTP, and says that it succeeds. Raises: Unknown."""
    if not (root / "run/systemd/system").is_dir():  # then timedatectl only complains
        raise Unknown("it does not run here")
    lines = run(["timedatectl", "show", "--property=NTP", "--property=NTPSynchronized"]).splitlines()
    values = dict(line.partition("=")[::2] for line in lines)
    try:
        return {"ntp": values["NTP"] == "yes", "synchronised": values["NTPSynchronized"] == "yes"}
    except KeyError as error:
        raise Unknown(f"timedatectl does not tell {error}") from error


def ptp(root: Path) -> dict[str, str]:
    """PTP devices: name -> what clock it is."""
    return {device.name: _text(device / "clock_name") for device in sorted((root / "sys/class/ptp").glob("ptp*"))}


def ptp4l(run: Run) -> dict[str, Any]:
    """How far the clock that ptp4l keeps is from its grandmaster's, by linuxptp's pmc. Raises: Unknown."""
    _, *told = _PTP_ANSWER.split(run(_PTP), maxsplit=1)
    if not told:
        raise Unknown("no ptp4l answers pmc")
    values = dict(words for words in map(str.split, told[0].splitlines()) if len(words) == 2)
    try:
        return {
            "offset_s": int(values["master_offset"]) * 1e-9,
            "grandmaster": values["gmIdentity"],
            "follows_it": values["gmPresent"] == "true",
        }
    except (KeyError, ValueError) as error:
        raise Unknown(f"pmc does not tell what it should: {error}") from error


def said(command: Sequence[str], within_s: float = WITHIN_S) -> str:
    """What ``command`` prints within that time, and WITHIN_S. Raises: Unknown, with what it complains of.

    A script in whose process it is asked never sees it, nor are its warnings shown again, as subprocess has them.
    """
    program = shutil.which(command[0])
    if program is None:
        raise Unknown("not installed")
    if within_s <= 0:
        raise Unknown("no time was left to ask it")
    try:
        code, output, complaints = run_unseen([program, *command[1:]], min(within_s, WITHIN_S))
    except OSError as error:
        raise Unknown(str(error)) from error
    if code != 0:
        complaint = (complaints or output).strip().splitlines()
        raise Unknown(complaint[0] if complaint else f"{command[0]} exited with {code}")
    return output


def _text(file: Path) -> str:
    try:
        return file.read_text().strip()
    except OSError as error:
        raise Unknown(f"{file}: {error.strerror}") from error
