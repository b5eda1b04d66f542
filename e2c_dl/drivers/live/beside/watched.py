"""Training beside what it cannot go on without: a process of this host that is to serve it until its end."""

from __future__ import annotations

import asyncio
from collections.abc import Coroutine
from typing import Any

CANCEL_EVERY_S = 10.0  # longer than what ends in order takes


async def watched(training: Coroutine[Any, Any, None], lost: Coroutine[Any, Any, None]) -> None:
    """``training``, ended when ``lost`` ends, which it does by raising. Raises: what it does, or ``training``."""
    work, watch = asyncio.ensure_future(training), asyncio.ensure_future(lost)
    try:
        await asyncio.wait({work, watch}, return_when=asyncio.FIRST_COMPLETED)
        await (watch if watch.done() else work)  # what is lost first: work may fail of it
    finally:
        going_on = {work, watch}
        while going_on:  # cancelled is not ended: nothing of training may run on
            for task in going_on:
                task.cancel()  # again: wait_for before Python 3.12 may swallow one as what it waits for ends
            _, going_on = await asyncio.wait(going_on, timeout=CANCEL_EVERY_S)
