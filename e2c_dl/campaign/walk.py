"""Carry a run through its steps, whatever happens on the way, and say how each ended.

::

    check stage | what may fail ...        | collect release verify report      always=True
    nothing yet | a failure or Ctrl-C here | still passes through all of these
    is started  |                          |

The first failure decides the exit code; later ones are recorded beside it. Ctrl-C ends the step that it comes in, also
where somebody else's code swallowed it, or the next one; steps that are always done are not interrupted.

Signals become an exception of ours, once, where it may come; elsewhere they are remembered. Where Python calls back on
its own (after a fork, on collecting garbage) it prints an exception and goes on: one that was lost so is raised again a
moment later. Other people's ``except Exception`` may swallow it too: so ``received`` is asked after each step.
"""

from __future__ import annotations

import errno
import os
import signal
import sys
import time
import traceback
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from types import FrameType
from typing import Generic, TypeVar

from e2c_dl.campaign.underway import Underway
from e2c_dl.errors import ArchiveError, E2cDlError, Interrupted

R = TypeVar("R", bound=Underway)


@dataclass(frozen=True, kw_only=True)
class Step(Generic[R]):
    """One step. ``always``: done after a failure too, once there is an archive. ``last``: writes the final record."""

    name: str
    what: str  # for people
    act: Callable[[R], None]
    always: bool = False
    last: bool = False


def walk(steps: Sequence[Step[R]], run: R) -> E2cDlError | None:
    """Take ``run`` through ``steps``; the first failure, after all that had to be done was done."""
    with interruptible() as interrupts:
        for step in steps:
            if run.failures and not (step.always and run.archive is not None):  # no archive: nothing to be ended
                continue
            _carry_out(step, run, interrupts)
    return run.failures[0][1] if run.failures else None


def _carry_out(step: Step[R], run: R, interrupts: Interrupts) -> None:
    """Do one step; its failure, if any, is one of ours, and on record."""
    run.console.step(step.name, step.what)
    begun = time.monotonic()  # not the wall clock, which may be set meanwhile
    error: E2cDlError | None = None
    try:
        with interrupts.raised(not step.always):
            step.act(run)
    except E2cDlError as failed:
        error = failed
    except OSError as failed:
        error = _full_disk(failed, run) or ArchiveError(f"{step.name}: {failed}")
        error.__cause__ = failed
    except Exception as failed:  # noqa: BLE001 - a defect: the hosts are released all the same, and the traceback is kept
        error = E2cDlError(f"{step.name}: unexpected {type(failed).__name__}: {failed}; please report logs/defect.txt")
        error.__cause__ = failed
        run.keep_traceback(traceback.format_exc())
    seconds = time.monotonic() - begun
    if interrupts.received is not None and not step.always:
        error = interrupts.received  # whatever else it looked like to others
        if run.archive is None:
            error = Interrupted("stopped before anything was started")
    if error is None:
        run.console.done(step.name, seconds)
    else:
        # Without an archive there is no more to come than the error itself, as the last line: it need not stand twice.
        run.console.failed(step.name, str(error) if run.archive is not None else "nothing was started")
    run.note(step.name, seconds, error, last=step.last)


def _full_disk(error: OSError, run: Underway) -> ArchiveError | None:
    if error.errno not in (errno.ENOSPC, errno.EDQUOT):
        return None
    where = error.filename or run.archive_path
    return ArchiveError(f"the disk is full ({where}); make room and run again, or say --archive with another disk")


class Interrupts:
    """What was received, and whether it is raised."""

    def __init__(self) -> None:
        self.received: Interrupted | None = None
        self._held = True
        self._main = os.getpid()

    @contextmanager
    def raised(self, wanted: bool) -> Iterator[None]:
        """Within, if ``wanted``, a signal raises Interrupted, also one that came before; elsewhere it is remembered."""
        try:
            self._held = not wanted
            if wanted and self.received is not None:
                raise self.received
            yield
        finally:
            self._held = True

    def on_signal(self, number: int, frame: FrameType | None) -> None:
        """Raises: Interrupted, the first time, in the process that began; forks of it end."""
        if os.getpid() != self._main:
            os._exit(128 + number)  # not sys.exit: a fork must not go through the controller's clean-up
        if self.received is None:  # only the first: whoever presses Ctrl-C again must not stop the clean-up
            what = signal.Signals(number).name
            self.received = Interrupted(f"stopped by {what}; what was traced until then is in the archive")
            if not self._held:
                raise self.received

    def on_alarm(self, number: int, frame: FrameType | None) -> None:
        """Raises: Interrupted, as it was lost before."""
        if self.received is not None and not self._held:
            raise self.received

    def on_lost(self, lost: sys.UnraisableHookArgs) -> None:
        """Called by Python with an exception that goes nowhere."""
        if lost.exc_value is not None and lost.exc_value is self.received:
            signal.setitimer(signal.ITIMER_REAL, Interrupted.again_s)  # not here: it would go nowhere again
        else:
            sys.__unraisablehook__(lost)


@contextmanager
def interruptible() -> Iterator[Interrupts]:
    """Ctrl-C and SIGTERM are remembered; within ``raised`` of what it yields they raise Interrupted, once.

    Only in this process: Ansible's forks inherit the handler, and end by themselves.
    """
    interrupts = Interrupts()
    handlers = dict.fromkeys((signal.SIGINT, signal.SIGTERM), interrupts.on_signal)
    before = {
        number: signal.signal(number, handler)
        for number, handler in [*handlers.items(), (signal.SIGALRM, interrupts.on_alarm)]
    }
    hook, sys.unraisablehook = sys.unraisablehook, interrupts.on_lost
    try:
        yield interrupts
    finally:
        signal.setitimer(signal.ITIMER_REAL, 0)  # first: without a handler, an alarm ends the process
        sys.unraisablehook = hook
        for number, handler in before.items():
            signal.signal(number, handler)
