"""Calls that block, in a thread that nobody waits for: who is asked to stop meanwhile can say so at once."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Callable
from contextlib import suppress
from functools import partial
from typing import ParamSpec, TypeVar

P = ParamSpec("P")
R = TypeVar("R")


async def abandonable(function: Callable[P, R], *args: P.args, **kwargs: P.kwargs) -> R:
    """What ``function`` returns, or raises. Cancelled, it is left to itself, and ends with the process.

    Unlike ``asyncio.to_thread``, whose threads are joined when the loop ends.
    """
    loop = asyncio.get_running_loop()
    done: asyncio.Future[R] = loop.create_future()

    def work() -> None:
        try:
            value = function(*args, **kwargs)
        except BaseException as error:  # noqa: BLE001 - whatever it is, it is raised where it is awaited
            _tell(partial(done.set_exception, error))
        else:
            _tell(partial(done.set_result, value))

    def _tell(tell: Callable[[], None]) -> None:
        with suppress(RuntimeError):  # the loop is closed: nobody listens any more
            loop.call_soon_threadsafe(lambda: None if done.done() else tell())

    threading.Thread(target=work, name="abandonable", daemon=True).start()
    return await done
