"""With which status a script calls ``sys.exit``, which Python tells nobody who is called as it ends.

``sys.exit(main())`` looks the function up before ``main`` is called: it is replaced as Python begins. This module
stands alone, so that it can be run then.
"""

from __future__ import annotations

import functools
import sys
import threading
from collections.abc import Callable
from typing import Any


def noted() -> list[SystemExit]:
    """What the newest call of ``sys.exit`` in the main thread raises; empty before the first; noted from now on."""
    found: list[SystemExit] | None = getattr(sys.exit, "newest", None)
    if found is None:
        found = []
        leave: Any = noting(sys.exit, found)
        leave.newest = found
        sys.exit = leave
    return found


def noting(original: Callable[..., Any], newest: list[SystemExit]) -> Callable[..., Any]:
    """``original``, by which a process exits, and which puts into ``newest`` what it raises."""

    @functools.wraps(original)
    def leave(*args: Any, **kwargs: Any) -> Any:
        try:
            return original(*args, **kwargs)
        except SystemExit as error:
            if threading.current_thread() is threading.main_thread():
                newest[:] = [SystemExit(error.code)]  # that one holds frames
            raise

    return leave
