"""A program that is run beside a script, which never sees it: no ``wait()`` of its own returns it, no SIGCHLD comes.

::

    this process   clone |~~ this thread waits, others go on ~~| wait4(child, __WALL)
    the child            | system()                            |
    its own child          | sh: timeout: the program       |

A child that was cloned without a signal is returned to none who does not ask for such, as long as it is not replaced by
a program itself: it shares this process's memory and calls system() of the C library. A script that waits for any of
its children, ``os.wait()``, gets those that it knows, and no script has to wait for what it has not begun.
"""

from __future__ import annotations

import ctypes
import os
import shlex
import signal
import sys
from collections.abc import Sequence

_CLONE_VM, _CLONE_VFORK, _WALL = 0x100, 0x4000, 0x40000000
_STACK_BYTES = 1 << 18
_KILLED = 128 + signal.SIGKILL


def run_unseen(command: Sequence[str], within_s: float) -> tuple[int, str, str]:
    """(exit code, what it printed, what it complained of) of ``command``; it is in English, and has no input.

    Raises: OSError; TimeoutError, after ``within_s`` seconds.
    """
    if sys.platform != "linux":
        raise OSError("it is asked on Linux alone")
    output, complaints = (os.memfd_create(name, 0) for name in ("output", "complaints"))  # inherited
    try:
        streams = f"exec </dev/null >/proc/self/fd/{output} 2>/proc/self/fd/{complaints}"
        bounded = shlex.join(["timeout", "-s", "KILL", f"{max(within_s, 0.001):.3f}", *command])
        _system(f"{streams}; LC_ALL=C {bounded}; echo $? >&2")
        *complained, code = _content(complaints).splitlines() or [""]
        if not code.isdecimal():
            raise OSError(f"{command[0]} was not run: {code or 'there is no shell'}")
        if int(code) == _KILLED:
            raise TimeoutError(f"{command[0]} timed out after {within_s:.1f} s")
        return int(code), _content(output), "\n".join(complained)
    finally:
        os.close(output)
        os.close(complaints)


def _system(command: str) -> None:
    """As ``os.system``, by a child that is not waited for like others. Raises: OSError."""
    library = ctypes.CDLL(None, use_errno=True)
    library.clone.argtypes = [ctypes.c_void_p, ctypes.c_void_p, ctypes.c_int, ctypes.c_char_p]
    stack = ctypes.create_string_buffer(_STACK_BYTES)
    top = (ctypes.addressof(stack) + _STACK_BYTES) & ~0xF
    called = ctypes.cast(library.system, ctypes.c_void_p)
    before = signal.pthread_sigmask(signal.SIG_BLOCK, signal.valid_signals())  # handlers would run here, in its memory
    try:
        child = library.clone(called, top, _CLONE_VM | _CLONE_VFORK, os.fsencode(command))
    finally:
        signal.pthread_sigmask(signal.SIG_SETMASK, before)
    if child < 0:
        raise OSError(ctypes.get_errno(), os.strerror(ctypes.get_errno()))
    os.waitpid(child, _WALL)


def _content(file: int) -> str:
    os.lseek(file, 0, os.SEEK_SET)
    with open(file, errors="replace", closefd=False) as content:
        return content.read()
