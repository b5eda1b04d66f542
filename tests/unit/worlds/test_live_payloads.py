"""Payloads of several arrays over real sockets, cut into segments anywhere."""

from __future__ import annotations

from pathlib import Path

import numpy as np
from test_live_network import play

from e2c_dl.strategies.base import Message
from e2c_dl.worlds.live import Network
from e2c_dl.worlds.live.mailbox import MailKey


def test_several_arrays_arrive_in_segments_of_any_kind(tmp_path: Path) -> None:
    payload = (np.arange(200_000, dtype=np.int32), np.arange(999).astype(np.float16), np.arange(7, dtype=np.int8))

    async def scene(opened: list[Network]) -> None:
        opened[0].post(1, Message(kind="k", step=0, payload=payload), 0, 1, 0)
        came = (await opened[1].mailboxes.get(MailKey(0, "k", -1, -1, 0))).message.arrays
        assert [each.dtype for each in came] == [each.dtype for each in payload]
        assert all(np.array_equal(here, there) for here, there in zip(came, payload, strict=True))

    play(tmp_path, scene)
