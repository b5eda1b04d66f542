"""A worker that goes on by itself: begun by one command, waited for by another, as the workflow's launch needs it.

::

    begin   scenario/, members.json and run.key from standard input -> the worker, in a session of its own; returns at
            once
    wait    "training" while it does, at most so long at a time; else how it ended, and that as exit status

What goes wrong in ``begin`` is told by ``wait``: the launch hides all that ``begin`` says, as its input holds the key.
Imports nothing heavy: on hosts that share a machine, every second of CPU time here is one of all of them.
"""

from __future__ import annotations

import binascii
import json
import os
import shutil
import signal
import stat
import subprocess
import sys
import time
from pathlib import Path
from typing import Any, TextIO

from e2c_dl.archive import layout
from e2c_dl.errors import InputError, TrainingError

PID, MEMBERS, KEY = "worker.pid", "members.json", "run.key"
TRAINING = "training"
STOPPING = (signal.SIGTERM, signal.SIGINT)
STOP_WITHIN_S = 10.0  # tracing is written out, the others are told
_LOOK_EVERY_S = 0.2
STOPPED_S = 30.0  # less than one call of ``wait`` lasts, which begins to count anew


def begin(run_dir: Path, service_id: str, told: TextIO) -> None:
    """Start the worker ``service_id``, which goes on when this process has ended.

    ``told`` is a JSON object: ``scenario`` (its files, a tar.gz in base64), ``members`` (what members.json holds) and
    ``key`` (the run's). ``run_dir`` is made where no testbed has made it. A worker that goes on there is ended first.

    Raises: InputError if it is none, or ``run_dir`` is another user's; OSError if that cannot be written.
    """
    _made(run_dir)
    _end_earlier(run_dir)
    for left in (PID, layout.OUTCOME):  # of an earlier launch here; first, or wait would take them for this one's
        (run_dir / left).unlink(missing_ok=True)
    try:
        content = json.load(told)
        packed = binascii.a2b_base64(content["scenario"])
        members, key = json.dumps(content["members"], indent=1), str(content["key"])
    except (ValueError, TypeError, KeyError) as error:
        raise InputError("begin: standard input is not a JSON object with 'scenario', 'members' and 'key'") from error
    if any(member.get("own_emulation") for member in content["members"]):
        _emptied(run_dir)  # under plain E2Clab repeats and configurations have one directory, one after the other
    _unpack(packed, run_dir / layout.SCENARIO)
    (run_dir / MEMBERS).write_text(members + "\n")
    _write_secret(run_dir / KEY, key)
    with (run_dir / layout.WORKER_LOG).open("ab") as log:  # appended: an earlier launch may have told why it failed
        worker = subprocess.Popen(
            [sys.executable, "-m", "e2c_dl.drivers.live", "train", str(run_dir), service_id],
            stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL, stderr=log, start_new_session=True,
        )  # fmt: skip
    (run_dir / PID).write_text(f"{worker.pid}\n")


def wait(run_dir: Path, within_s: float) -> str | None:
    """None while the worker of ``run_dir`` goes on, after ``within_s``; else, at once, its last word: empty if all went
    well.

    A worker that somebody stopped, and that is no pause of the scenario, is ended after ``STOPPED_S``: its peers would
    wait for it as long as it would. Raises: TrainingError then, and if none was started, or it exited without an
    outcome.
    """
    try:
        pid = int((run_dir / PID).read_text())
    except (OSError, ValueError) as error:
        raise TrainingError(f"{run_dir}: no worker was started there: {_why_not(run_dir)}") from error
    went_on_s = time.monotonic()
    deadline_s = went_on_s + within_s
    while goes_on(pid, run_dir):
        now_s = time.monotonic()
        if not _is_stopped(pid) or _is_paused(run_dir):
            went_on_s = now_s
        if now_s - went_on_s > STOPPED_S:
            os.kill(pid, signal.SIGKILL)
            raise TrainingError(f"{run_dir}: its worker was stopped by a signal for {STOPPED_S:g} s, and was ended")
        if now_s > deadline_s:
            return None
        time.sleep(_LOOK_EVERY_S)  # it is no child of this process, so there is nothing to wait on
    ended = _outcome(run_dir)
    return f"{ended['status']}: {ended['reason']}" if ended["reason"] else ""


def stop(run_dir: Path, within_s: float = STOP_WITHIN_S) -> None:
    """Ask the worker of ``run_dir`` to stop, if it has not ended already; wait, so long at most, for its last word.

    Raises: InputError if there was none."""
    path = run_dir / PID
    try:
        pid = int(path.read_text())
    except FileNotFoundError as error:
        raise InputError(f"{path}: does not exist: no worker was started there; name its run directory") from error
    except ValueError as error:
        raise InputError(f"{path}: does not hold a process id; end the worker by hand") from error
    if goes_on(pid, run_dir):  # else the number may be another's by now
        os.kill(pid, signal.SIGTERM)  # so that it tells the others, and writes its outcome
        os.kill(pid, signal.SIGCONT)  # a scenario may have it stopped just now
    deadline_s = time.monotonic() + within_s
    while goes_on(pid, run_dir) and time.monotonic() < deadline_s:
        time.sleep(_LOOK_EVERY_S)


def goes_on(pid: int, run_dir: Path) -> bool:
    """Whether process ``pid`` is the worker of ``run_dir``: numbers are given again."""
    try:
        command = Path(f"/proc/{pid}/cmdline").read_bytes().split(b"\0")
    except OSError:
        return False
    return b"e2c_dl.drivers.live" in command and os.fsencode(run_dir.name) in b"/".join(command).split(b"/")


def _is_stopped(pid: int) -> bool:
    try:
        status = Path(f"/proc/{pid}/stat").read_text(encoding="utf-8", errors="replace")
    except OSError:
        return False
    return status.rpartition(")")[2].split()[0] == "T"


def _is_paused(run_dir: Path) -> bool:
    """Whether the agent has the worker stopped just now, as the scenario asks for."""
    try:
        lines = (run_dir / layout.CHANGES).read_text(encoding="utf-8", errors="replace").splitlines()
    except OSError:  # there is no agent
        return False
    last = [line for line in lines if '"pause"' in line or '"resume"' in line][-1:]
    return any('"pause"' in line for line in last)


def _outcome(run_dir: Path) -> dict[str, Any]:
    try:
        ended: dict[str, Any] = json.loads((run_dir / layout.OUTCOME).read_text())
        return ended
    except (OSError, ValueError) as error:
        raise TrainingError(
            f"{run_dir}: its worker ended without an outcome, as one that was killed does; see its worker.log"
        ) from error


def _why_not(run_dir: Path) -> str:
    """Tried once more, for its reason."""
    probe = run_dir / ".room"
    try:
        probe.write_text(" " * 4096)  # a full disk still makes empty files
        probe.unlink()
    except OSError as error:
        return f"it cannot be written: {error.strerror}; make room there"
    try:
        return (run_dir / layout.WORKER_LOG).read_text().strip().splitlines()[-1]
    except (OSError, IndexError):
        return "the workflow's launch did not come to it; look into e2clab.log"


def _made(run_dir: Path) -> None:
    """Raises: InputError: in /tmp, where it is under plain E2Clab, anybody may have put something in its place."""
    run_dir.mkdir(mode=0o700, exist_ok=True)
    found = run_dir.lstat()
    if found.st_uid != os.getuid() or stat.S_ISLNK(found.st_mode):
        raise InputError(f"{run_dir}: is there already, and is not this user's own folder; remove it")


def _end_earlier(run_dir: Path) -> None:
    """No worker of an earlier launch goes on here, left to itself: it would hold rank 0's port, and write where this
    one's does."""
    try:
        pid = int((run_dir / PID).read_text())
    except (OSError, ValueError):
        return
    if goes_on(pid, run_dir):
        stop(run_dir)
    if goes_on(pid, run_dir):
        os.kill(pid, signal.SIGKILL)


def _emptied(run_dir: Path) -> None:
    """Nothing is there of an earlier launch, but for what it told."""
    for path in run_dir.iterdir():
        if path.is_file() and path.name != layout.WORKER_LOG:
            path.unlink()
    shutil.rmtree(run_dir / layout.SCENARIO, ignore_errors=True)


def _unpack(packed: bytes, into: Path) -> None:
    """By the program: Python's module takes longer to import than all else here. Raises: InputError, OSError."""
    into.mkdir(parents=True, exist_ok=True)
    argv = ["tar", "--extract", "--gzip", "--no-same-owner", "--directory", str(into)]
    done = subprocess.run(argv, input=packed, capture_output=True, check=False)
    if done.returncode:
        raise InputError(f"{into}: the scenario cannot be unpacked: {done.stderr.decode(errors='replace').strip()}")


def _write_secret(path: Path, key: str) -> None:
    path.unlink(missing_ok=True)  # an old file would keep its mode
    descriptor = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600)  # at no moment readable to others
    with os.fdopen(descriptor, "w") as file:
        file.write(key)
