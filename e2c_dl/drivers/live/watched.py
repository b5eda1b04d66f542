"""Training beside what it cannot go on without: a process of this host that is to serve it until its end."""

from __future__ import annotations

import asyncio
from collections.abc import Coroutine
from typing import Any


async def watched(training: Coroutine[Any, Any, None], lost: Coroutine[Any, Any, None]) -> None:
    """``training``, ended when ``lost`` ends, which it does by raising. Raises: what it does, or ``training``."""
    work, watch = asyncio.ensure_future(training), asyncio.ensure_future(lost)
    try:
        await asyncio.wait({work, watch}, return_when=asyncio.FIRST_COMPLETED)
        await (watch if watch.done() else work)  # what is lost first: work may fail of it
    finally:
        for task in (work, watch):
            task.cancel()  # of one that has ended: no effect
        await asyncio.wait({work, watch})  # cancelled is not ended: nothing of training may run on
