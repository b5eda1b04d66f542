"""Loops over the moments of a run: compiled where there are many, run as they stand where there are few.

Compiling takes seconds, once per machine: Numba keeps what it made beside the module or, where that may not be written,
in the user's cache; where neither takes it, as on a full disk, each process compiles anew. Loading Numba takes half a
second: a run of some thousand spans is done by then. Compiled loops run beside each other in threads.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import cache, wraps
from types import FunctionType
from typing import Any, ParamSpec, TypeVar, cast

P = ParamSpec("P")
R = TypeVar("R")

FEW = 100_000
"""Steps of a loop that Python is done with in the time that loading Numba takes: some 3 us each."""


def compiled(
    size: Callable[P, int], few: int = FEW, calls: tuple[Callable[..., Any], ...] = ()
) -> Callable[[Callable[P, R]], Callable[P, R]]:
    """Makes a loop over arrays one that is compiled where it takes more than ``few`` steps, as ``size`` counts them.

    ``calls``: functions that it calls, and that these call, of its own module: Numba makes what it keeps anew when that
    changes.
    """

    def decorated(loop: Callable[P, R]) -> Callable[P, R]:
        @wraps(loop)
        def call(*args: P.args, **kwargs: P.kwargs) -> R:
            made = _made(loop, calls) if size(*args, **kwargs) > few else loop
            return made(*args, **kwargs)

        return call

    return decorated


@cache
def _made(loop: Callable[P, R], calls: tuple[Callable[..., Any], ...]) -> Callable[P, R]:
    import numba

    loop = _calling(loop, calls)
    try:
        kept = cast("Callable[P, R]", numba.njit(cache=True, nogil=True)(loop))
    except RuntimeError:  # nowhere to keep it
        return _unkept(loop)

    def call(*args: P.args, **kwargs: P.kwargs) -> R:
        try:
            return kept(*args, **kwargs)
        except OSError:  # loops touch no files: what is kept cannot be read, or written before the loop begins
            unkept: Callable[P, R] = _unkept(loop)
            return unkept(*args, **kwargs)

    return call


def _calling(loop: Callable[P, R], calls: tuple[Callable[..., Any], ...]) -> Callable[P, R]:
    """``loop``, which calls ``calls`` compiled, too."""
    import numba

    if not calls:
        return loop
    known = dict(loop.__globals__)
    known |= {each.__name__: numba.njit(nogil=True)(FunctionType(each.__code__, known)) for each in calls}
    return cast("Callable[P, R]", FunctionType(loop.__code__, known))


@cache
def _unkept(loop: Callable[P, R]) -> Callable[P, R]:
    import numba

    return cast("Callable[P, R]", numba.njit(nogil=True)(loop))
