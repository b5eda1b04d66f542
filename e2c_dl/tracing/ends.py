"""How the process of a rank ends: by which exception, as far as that can be known before it has ended.

::

    its outermost frame has returned        it finished, whatever was raised and caught before
    sys.last_value                          nobody caught it; Python sets it before any excepthook, whoever's it is;
                                            others set it, too (pytest), to what did not come out of that frame
    sys.exit, exit and quit were called     SystemExit, by the newest call: Python forgets it before it tells atexit
    otherwise                               SystemExit was raised by hand, with nobody knows which status
"""

from __future__ import annotations

import dis
import sys
import threading
from types import FrameType, TracebackType
from typing import Any

from e2c_dl.tracing import exits

RETURNS = ("RETURN_VALUE", "RETURN_CONST")
UNKNOWN = "the script ended by an exception of its own, SystemExit as it seems: its exit status is not known"


class Ending:
    """Watches the main thread, from when it is made."""

    def __init__(self) -> None:
        self._before = _uncaught()  # an interactive session's, of what it ran before
        self._hooked: BaseException | None = None
        self._exit = exits.noted()
        self._exit.clear()  # of what was caught before
        self._outermost = _outermost()
        self._watch()

    def failure(self) -> str | None:
        """Told when Python ends, once: what ended the script, "" if it finished; None if that is not known.

        Nothing of the script's is held from then on: files that it left open are written when Python closes them, which
        it does to what nobody holds.
        """
        before, outermost, hooked = self._before, self._outermost, self._hooked
        self._before = self._outermost = self._hooked = None
        if outermost is not None and _has_returned(outermost):
            return ""
        error = _uncaught()
        if error is not None and error is not before and _came_out(error, outermost):
            return told(error)
        if self._exit:
            return failed(self._exit[0])
        if hooked is not None:
            return told(hooked)
        return "" if outermost is None else None

    def _watch(self) -> None:
        before = sys.excepthook

        def hook(kind: type[BaseException], error: BaseException, traceback: TracebackType | None) -> None:
            self._hooked = error
            before(kind, error, traceback)

        sys.excepthook = hook
        import _sitebuiltins  # of exit and quit

        quitter: Any = _sitebuiltins.Quitter
        quitter.__call__ = exits.noting(quitter.__call__, self._exit)


def told(error: BaseException) -> str:
    """``error`` in a line."""
    lines = str(error).splitlines()
    return f"{type(error).__name__}: {lines[0]}" if lines else type(error).__name__


def failed(error: BaseException) -> str:
    """``error`` in a line; "" for one that ends a process with status 0."""
    status = error.code if isinstance(error, SystemExit) else error
    return "" if status is None or (isinstance(status, int) and not status & 0xFF) else told(error)


def _uncaught() -> BaseException | None:
    return getattr(sys, "last_value", None)


def _came_out(error: BaseException, outermost: FrameType | None) -> bool:
    """Whether ``error`` was raised through the ``outermost`` frame, if that is known."""
    traceback = error.__traceback__
    return outermost is None or traceback is None or traceback.tb_frame is outermost


def _outermost() -> FrameType | None:
    """The main thread's frame that nobody called."""
    frame = sys._current_frames().get(threading.main_thread().ident or 0)
    while frame is not None and frame.f_back is not None:
        frame = frame.f_back
    return frame


def _has_returned(frame: FrameType) -> bool:
    code = frame.f_code.co_code
    return 0 <= frame.f_lasti < len(code) and dis.opname[code[frame.f_lasti]] in RETURNS
