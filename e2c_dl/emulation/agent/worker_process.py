"""Stopping, continuing and killing the worker that an agent serves, so that it never stays stopped by accident.

::

    agent --SIGSTOP--> worker          guard: a child of the agent that does nothing but wait for a pipe to close
      |  pipe  |                              closed: the agent resumes the worker, or has died; either way SIGCONT
      '------ guard --SIGCONT--> worker
"""

from __future__ import annotations

import ctypes
import os
import signal
import time

_PR_SET_PDEATHSIG = 1


def die_with_parent(parent: int) -> bool:
    """This process is killed when its parent ends. False: the parent, whose pid is given, has ended already."""
    ctypes.CDLL(None).prctl(_PR_SET_PDEATHSIG, signal.SIGKILL)
    return os.getppid() == parent  # one that ended before the prctl sends no signal


class WorkerProcess:
    """The process ``pid``. Methods return ns of the machine's clock: when it was done."""

    def __init__(self, pid: int) -> None:
        self._pid = pid
        self._guard: tuple[int, int] | None = None  # (its pid, the pipe's end that keeps it waiting)

    @property
    def stopped(self) -> bool:
        return self._guard is not None

    def stop(self) -> int:
        """It does nothing from now on, until :meth:`resume`, or until this process ends."""
        self._guard = self._guard or _guard(self._pid)
        os.kill(self._pid, signal.SIGSTOP)
        return time.monotonic_ns()

    def resume(self) -> int:
        at_ns = time.monotonic_ns()  # before: it may do something before this process comes to look at the clock
        os.kill(self._pid, signal.SIGCONT)
        if self._guard is not None:
            pid, pipe = self._guard
            os.close(pipe)
            os.waitpid(pid, 0)
            self._guard = None
        return at_ns

    def kill(self) -> None:
        os.kill(self._pid, signal.SIGKILL)


def _guard(worker: int) -> tuple[int, int]:
    waiting, kept = os.pipe()
    pid = os.fork()
    if pid:
        os.close(waiting)
        return pid, kept
    try:  # in the guard, which is never to come back
        os.close(kept)
        os.read(waiting, 1)  # returns when the agent's end is closed, whatever ended the agent
        os.kill(worker, signal.SIGCONT)
    finally:
        os._exit(0)  # no clean-up of what belongs to the agent
