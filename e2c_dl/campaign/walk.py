"""Carry a run through its steps, whatever happens on the way, and say how each ended.

::

    check stage | what may fail ...        | collect release verify report      always=True
    nothing yet | a failure or Ctrl-C here | still passes through all of these
    is started  |                          |

The first failure decides the exit code; later ones are recorded beside it. Ctrl-C ends the step that it comes in, also
where somebody else's code swallowed it, or the next one; see ``interrupts`` for what ends a step that is always done.

What is told and recorded of a step may fail as well, its reader or its disk gone: no step is left out for that.
"""

from __future__ import annotations

import errno
import resource
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Generic, TypeVar

from e2c_dl.archive import layout
from e2c_dl.archive.write import Archive
from e2c_dl.campaign.interrupts import Interrupts, interruptible
from e2c_dl.campaign.underway import Underway
from e2c_dl.errors import ArchiveError, E2cDlError, InputError, Interrupted, TestbedError

R = TypeVar("R", bound=Underway)
NEARLY_ALL = 0.95


@dataclass(frozen=True, kw_only=True)
class Step(Generic[R]):
    """One step. ``always``: done after a failure too, once there is an archive. ``last``: writes the final record.

    ``limit_s``: it ends, as a failure, when it took longer than that; generous, as it is there for what hangs.
    """

    name: str
    what: str  # for people
    act: Callable[[R], None]
    always: bool = False
    last: bool = False
    limit_s: float | None = None


def walk(steps: Sequence[Step[R]], run: R) -> E2cDlError | None:
    """Take ``run`` through ``steps``; the first failure, after all that had to be done was done."""
    with interruptible(run.console.say) as interrupts:
        run.interrupts = interrupts
        for step in steps:
            if run.failures and not (step.always and run.archive is not None):  # no archive: nothing to be ended
                continue
            _carry_out(step, run, interrupts)
    return run.failures[0][1] if run.failures else None


def _carry_out(step: Step[R], run: R, interrupts: Interrupts) -> None:
    """Do one step; its failure, if any, is one of ours, and on record."""
    run.console.step(step.name, step.what)
    begun, before = time.monotonic(), interrupts.received  # not the wall clock, which may be set meanwhile
    error: E2cDlError | None = None
    try:
        with interrupts.raised(not step.always), interrupts.limited(step.limit_s, lambda: _too_long(step, run)):
            step.act(run)
    except (Exception, SystemExit) as failed:  # noqa: BLE001 - whatever it is: the hosts are released all the same
        error = _ours(failed, step.name, run)
    seconds = time.monotonic() - begun
    if interrupts.ended is not None:
        error = interrupts.ended  # whatever else it looked like to others
        if run.archive is None and error is interrupts.received:
            error = Interrupted("stopped before anything was started")
    elif error is not None and before is None and interrupts.received is not None:
        error = interrupts.received  # a terminal sends it to Ansible's forks as well, which fail of it
    if error is None:
        run.console.done(step.name, seconds)
    else:
        # Without an archive there is no more to come than the error itself, as the last line: it need not stand twice.
        run.console.failed(step.name, str(error) if run.archive is not None else "nothing was started")
    try:
        run.note(step.name, seconds, error, last=step.last)
    except (E2cDlError, OSError) as failed:
        unrecorded = _ours(failed, step.name, run)
        if str(unrecorded) not in {str(known) for _, known in run.failures}:  # said once, not of every step
            run.console.say(str(unrecorded))
            run.failures.append((step.name, unrecorded))


def _too_long(step: Step[R], run: R) -> E2cDlError:
    waited = f"; waited for {', '.join(run.waited_for)}" if run.waited_for else ""
    return TestbedError(f"{step.name}: not done after {step.limit_s:g} s{waited}; what can be done without it is done")


def _ours(failed: BaseException, step: str, run: Underway) -> E2cDlError:
    """What went wrong, as an error of ours; of a defect, the traceback is kept."""
    if _is_of_archive(failed, run) and not (run.archive_path / layout.RUN).is_file():
        error: E2cDlError = ArchiveError(
            f"{run.archive_path}: the archive was removed, or moved, while the run went on; leave it where it is"
        )
    elif isinstance(failed, MemoryError) or (_is_starved() and not isinstance(failed, (InputError, Interrupted))):
        # What it starts has the same limit, and says in its own words that there is no more.
        error = E2cDlError(f"{step}: no memory was left for this program; see ulimit -v, and what else runs ({failed})")
    elif isinstance(failed, E2cDlError):
        return failed
    elif isinstance(failed, OSError):
        error = _full_disk(failed, run) or ArchiveError(f"{step}: {failed}")
    else:
        error = run.defect(step, failed)
    error.__cause__ = failed
    return error


def _is_of_archive(failed: BaseException, run: Underway) -> bool:
    """Whether ``failed`` may be about the archive: E2Clab works in it, too, and tells what it missed as its own."""
    if isinstance(failed, Interrupted) or not isinstance(run.archive, Archive):
        return False
    return isinstance(failed, (ArchiveError, OSError)) or str(run.archive_path) in str(failed)


def _is_starved() -> bool:
    """Whether this process has nearly all of the address space that it may have."""
    limit = resource.getrlimit(resource.RLIMIT_AS)[0]
    if limit == resource.RLIM_INFINITY:
        return False
    pages = int(Path("/proc/self/statm").read_text(encoding="ascii").split()[0])
    return pages * resource.getpagesize() > NEARLY_ALL * limit


def _full_disk(error: OSError, run: Underway) -> ArchiveError | None:
    if error.errno not in (errno.ENOSPC, errno.EDQUOT):
        return None
    where = error.filename or run.archive_path
    return ArchiveError(f"the disk is full ({where}); make room and run again, or say --archive with another disk")
