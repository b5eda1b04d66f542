"""A call that blocks holds nobody up who is asked to stop."""

from __future__ import annotations

import asyncio
import threading

import pytest

from e2c_dl.drivers.live.abandoned import abandonable


def test_what_it_returns_and_raises_is_handed_on() -> None:
    assert asyncio.run(abandonable(divmod, 7, 2)) == (3, 1)
    with pytest.raises(ZeroDivisionError):
        asyncio.run(abandonable(divmod, 7, 0))


def test_it_is_not_waited_for_once_it_is_cancelled() -> None:
    go_on, over = threading.Event(), threading.Event()

    async def stopped() -> None:
        loop, begun = asyncio.get_running_loop(), asyncio.Event()

        def blocks() -> None:
            loop.call_soon_threadsafe(begun.set)
            go_on.wait()
            over.set()

        waiting = asyncio.create_task(abandonable(blocks))
        await begun.wait()
        waiting.cancel()
        await waiting

    with pytest.raises(asyncio.CancelledError):
        asyncio.run(stopped())
    assert not over.is_set()
    go_on.set()
    assert over.wait(60)  # it ends, and finds nobody who listens
