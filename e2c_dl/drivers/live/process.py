"""A worker as a process: its pid file, its signals, its exit status, and the outcome it leaves in every case."""

from __future__ import annotations

import asyncio
import os
import signal
import sys
import time
import traceback
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

from e2c_dl.archive.host_records import HostRecords
from e2c_dl.archive.records import Cause, WorkerOutcome
from e2c_dl.drivers.live import members
from e2c_dl.drivers.live.control import Aborted
from e2c_dl.drivers.live.detached import PID, STOPPING
from e2c_dl.drivers.live.members import Assignment
from e2c_dl.drivers.live.progress import ProgressLog
from e2c_dl.drivers.live.train import train
from e2c_dl.errors import ArchiveError, E2cDlError, FidelityError, PeerLost
from e2c_dl.strategies.base import Evaluation

STANDARD_ERROR = 2
STOPPED = 128 + signal.SIGTERM


def run_worker(run_dir: Path, service_id: str) -> int:
    """Train as the host ``service_id``; the exit status: 0, the error's, or 143 if stopped.

    Leaves worker.pid, outcome.json and the files of :mod:`e2c_dl.archive.layout` in ``run_dir``. The reason goes to
    standard error; warnings, and a traceback if the program itself is at fault, only into worker.log there.

    Raises: E2cDlError, if there is nothing that could be trained, or nowhere to say so.
    """
    HostRecords(run_dir).reserve_outcome()  # first: on a full disk there must be room to say so
    pid, file = f"{os.getpid()}\n", run_dir / PID
    if not file.is_file() or file.read_text() != pid:  # begun in the background: it stands, and is being waited for
        file.write_text(pid)
    os.environ["TMPDIR"] = os.path.abspath(run_dir)  # torch leaves a directory there: it goes with the others
    with _logged(HostRecords(run_dir).log):  # from here on: importing torch may warn, too
        ended, exit_status = _worked(run_dir, service_id)
    if ended.reason:
        sys.stderr.write(f"{ended.status}: {ended.reason}\n")
    return exit_status


def _worked(run_dir: Path, service_id: str) -> tuple[WorkerOutcome, int]:
    """(the outcome, which is written, the exit status)."""
    try:
        assignment = members.read(run_dir, service_id)
    except E2cDlError as error:
        ended = WorkerOutcome.of(
            Cause.FAILED, reason=str(error), rank=-1, iterations_done=0, seconds=0.0, ended_s=time.time()
        )
        _write(run_dir, ended)
        return ended, error.exit_code
    progress = ProgressLog(assignment.records, assignment.rank)
    ending, evaluation = _attempt(assignment, progress)
    ended_s = time.time()  # of failures, the earliest is the cause
    ended = WorkerOutcome.of(
        ending.cause, reason=ending.reason, rank=assignment.rank, origin=ending.origin,
        iterations_done=progress.iterations_done, seconds=round(progress.seconds, 6), ended_s=ended_s,
        loss=evaluation.loss if evaluation else None, accuracy=evaluation.accuracy if evaluation else None,
    )  # fmt: skip
    progress.close()  # before the outcome, which says that all is written
    _write(run_dir, ended)
    return ended, ending.exit_status


@dataclass(frozen=True)
class _Ending:
    cause: Cause
    reason: str
    exit_status: int
    origin: int | None = None  # another's rank


def _attempt(assignment: Assignment, progress: ProgressLog) -> tuple[_Ending, Evaluation | None]:
    """How training ended: its cause is decided here, by the error that ended it."""
    try:
        return _Ending(Cause.FINISHED, "", 0), asyncio.run(_until_signalled(assignment, progress))
    except asyncio.CancelledError:  # nothing but a signal cancels it
        ending = _Ending(Cause.STOPPED, "it was asked to stop", STOPPED)
    except Aborted as aborted:
        ending = _aborted(aborted)
    except PeerLost as lost:
        ending = _Ending(Cause.LOST_PEER, str(lost), lost.exit_code, lost.rank)
    except FidelityError as error:
        ending = _Ending(Cause.NOT_AS_REQUESTED, str(error), error.exit_code)
    except E2cDlError as error:
        ending = _Ending(Cause.FAILED, str(error), error.exit_code)
    except Exception as error:  # noqa: BLE001 - the program's own fault: the log shows where, the outcome that it was
        traceback.print_exc()
        ending = _Ending(Cause.FAILED, " ".join(f"{type(error).__name__}: {error}".split()), 1)
    return ending, None


def _aborted(aborted: Aborted) -> _Ending:
    """What another began: a worker that stops because another was stopped has stopped, one that fails has not failed
    by itself."""
    if aborted.cause is Cause.STOPPED:
        return _Ending(Cause.STOPPED, str(aborted), STOPPED, aborted.rank)
    cause = Cause.ANOTHER if aborted.cause is Cause.FAILED else aborted.cause
    return _Ending(cause, str(aborted), aborted.exit_code, aborted.rank)


async def _until_signalled(assignment: Assignment, progress: ProgressLog) -> Evaluation | None:
    """Train; SIGTERM and SIGINT cancel it."""
    loop = asyncio.get_running_loop()
    training = loop.create_task(train(assignment, progress))
    for number in STOPPING:
        loop.add_signal_handler(number, training.cancel)  # cancelled, it tells the others; killed, it would be lost
    signal.pthread_sigmask(signal.SIG_UNBLOCK, STOPPING)  # one may have come while all was imported
    return await training


@contextmanager
def _logged(path: Path) -> Iterator[None]:
    """While in it, whatever the process writes to standard error, torch's C++ included, goes to ``path``."""
    before = os.dup(STANDARD_ERROR)  # by descriptor: sys.stderr would not catch what C++ writes
    with path.open("a") as log:
        os.dup2(log.fileno(), STANDARD_ERROR)
        try:
            yield
        finally:
            sys.stderr.flush()  # into the log, before it is turned back
            os.dup2(before, STANDARD_ERROR)
            os.close(before)


def _write(run_dir: Path, ended: WorkerOutcome) -> None:
    try:
        HostRecords(run_dir).write_outcome(ended)
    except ArchiveError as error:
        sys.stderr.write(f"{error}\n")
