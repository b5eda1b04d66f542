"""A command started so that all its Python processes attach, its streams and its exit code being its own.

Signals that come to this process are passed on, but for those that a terminal has sent to both.
"""

from __future__ import annotations

import os
import signal
import subprocess
import time
from collections.abc import Mapping, Sequence
from pathlib import Path

from e2c_dl.errors import InputError

PASSED_ON = (
    signal.SIGINT, signal.SIGTERM, signal.SIGHUP, signal.SIGQUIT, signal.SIGUSR1, signal.SIGUSR2
)  # fmt: skip


def run(command: Sequence[str], environment: Mapping[str, str]) -> int:
    """The exit status of ``command``, as a shell tells it: 128 + the signal that ended it, where one did.

    Raises: InputError if it cannot be started.
    """
    awaited = {*PASSED_ON, signal.SIGCHLD}
    ignored = signal.getsignal(signal.SIGCHLD) == signal.SIG_IGN
    if ignored:  # by who began this: then it never comes, nor any child's status
        signal.signal(signal.SIGCHLD, signal.SIG_DFL)
    before = signal.pthread_sigmask(signal.SIG_BLOCK, awaited)

    def as_it_was() -> None:
        if ignored:
            signal.signal(signal.SIGCHLD, signal.SIG_IGN)
        signal.pthread_sigmask(signal.SIG_SETMASK, before)

    try:
        try:
            process = subprocess.Popen(
                list(command), env=dict(environment), close_fds=False,  # a shell's <(...); own ones end here
                preexec_fn=as_it_was,  # noqa: PLW1509  # no threads yet
            )  # fmt: skip
        except OSError as error:
            raise InputError(f"{command[0]}: cannot be started: {error.strerror}; name a program") from error
        return _followed(process, awaited)
    finally:
        while signal.sigtimedwait(awaited, 0) is not None:  # what came too late for it is not for this process either
            pass
        signal.pthread_sigmask(signal.SIG_SETMASK, before)


def _followed(process: subprocess.Popen[bytes], awaited: set[signal.Signals]) -> int:
    while process.poll() is None:
        told = signal.sigwaitinfo(awaited)
        if told.si_signo == signal.SIGCHLD:
            continue
        if told.si_code <= 0:  # sent by a process; a terminal's reach all that it has in the foreground
            process.send_signal(told.si_signo)
    code = process.returncode
    return 128 - code if code < 0 else code


def wait_for(pids: Sequence[int], within_s: float) -> tuple[int, ...]:
    """Those of ``pids`` that are still alive after ``within_s`` at the latest."""
    until_s = time.monotonic() + within_s
    while True:
        alive = tuple(pid for pid in pids if _alive(pid))
        if not alive or time.monotonic() > until_s:
            return alive
        time.sleep(0.02)


def _alive(pid: int) -> bool:
    try:
        os.kill(pid, 0)
    except ProcessLookupError:
        return False
    except PermissionError:
        return True
    try:
        state = Path(f"/proc/{pid}/stat").read_bytes().rpartition(b")")[2].split()[:1]
    except FileNotFoundError:  # gone by now
        return False
    except OSError:
        return True
    return state not in ([b"Z"], [b"X"])  # it has ended, and its parent does not ask how, as many a container's first
