"""The end of all connections: what is still on its way comes first."""

from __future__ import annotations

import asyncio
from contextlib import ExitStack
from pathlib import Path

import live_world
import pytest

from e2c_dl.errors import PeerLost
from e2c_dl.strategies.base import Message
from e2c_dl.worlds.live import Network, network


def test_closing_waits_as_long_as_something_comes_and_no_longer(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(network, "SILENT_S", 0.05)

    async def run() -> None:
        with ExitStack() as stack:
            opened = live_world.networks(stack, live_world.recorders(stack, tmp_path, 2))
            await live_world.connected(opened, [(0, 1), (1, 0)])
            await scene(opened)

    async def scene(opened: list[Network]) -> None:
        loop = asyncio.get_running_loop()
        closing, begun_s = asyncio.ensure_future(opened[1].close()), loop.time()
        while loop.time() < begun_s + 5 * network.SILENT_S:
            await opened[0].post(1, Message(kind="k"), 0, 1, 0)
        assert not closing.done()
        with pytest.raises(PeerLost, match="lost rank 0: it did not say goodbye, and nothing came for"):
            await closing

    asyncio.run(run())
