"""One of the two processes that are measured: sends or receives messages over the live world, or over gloo.

Run by ``benchmarks.transport``, one per rank, as ``python -m benchmarks.transport.peer JSON``. Rank 0 sends ``repeats``
messages of ``size_bytes``, at most ``ahead`` not yet received; rank 1 says after each how long it has been, in ns.
"""

from __future__ import annotations

import asyncio
import json
import os
import sys
import tempfile
import time
from pathlib import Path
from typing import Any

import numpy as np

from e2c_dl.strategies.base import Message
from e2c_dl.trace.recording.recorder import Recorder
from e2c_dl.worlds.live import Address, Network, SocketOptions
from e2c_dl.worlds.live.mailbox import MailKey

SECRET = b"a key for two processes of a benchmark"


async def live(asked: dict[str, Any]) -> list[float]:
    """Seconds at which each message had come whole, since the first was requested; on rank 0 they mean nothing."""
    rank, size_bytes, repeats = asked["rank"], asked["size_bytes"], asked["repeats"]
    with tempfile.TemporaryDirectory() as folder:
        recorder = Recorder(Path(folder) / "spans.bin", rank=rank, host=f"h{rank}", layer="edge")
        network = Network(
            asked["addresses"][rank], asked["ports"][rank], rank=rank, size=2, key=SECRET, recorder=recorder,
            largest_payload_bytes=size_bytes, options=SocketOptions(congestion_control=asked["congestion_control"]),
        )  # fmt: skip
        where = zip(asked["addresses"], asked["ports"], strict=True)
        await network.connect([Address(host=host, port=port) for host, port in where], [(0, 1), (1, 0)])
        times_s = await (_send(network, size_bytes, repeats) if rank == 0 else _receive(network, repeats))
        await network.close()
        recorder.close()
    return times_s


async def _send(network: Network, size_bytes: int, repeats: int) -> list[float]:
    payload = np.ones(size_bytes // 4, dtype=np.float32)
    posted = []
    for step in range(repeats):
        posted.append(network.post(1, Message(kind="bulk", step=step, payload=payload), 0, time.monotonic_ns(), 0))
        if step >= 2:
            await posted[step - 2]
    await network.mailboxes.get(MailKey(1, "came", -1, -1, -1))
    return []


async def _receive(network: Network, repeats: int) -> list[float]:
    begin_s = time.monotonic()
    times_s = []
    for step in range(repeats):
        await network.mailboxes.get(MailKey(0, "bulk", -1, -1, step))
        times_s.append(time.monotonic() - begin_s)
    await network.post(0, Message(kind="came"), 0, time.monotonic_ns(), 0)
    return times_s


def gloo(asked: dict[str, Any]) -> list[float]:
    """The same over torch.distributed's send and recv, into memory that is there already."""
    import torch
    from torch import distributed

    rank, repeats = asked["rank"], asked["repeats"]
    os.environ["GLOO_SOCKET_IFNAME"] = "lo"
    distributed.init_process_group("gloo", init_method=f"file://{asked['store']}", rank=rank, world_size=2)
    tensor = torch.ones(asked["size_bytes"] // 4)
    distributed.barrier()
    begin_s = time.monotonic()
    times_s = []
    for _ in range(repeats):
        if rank == 0:
            distributed.send(tensor, 1)
        else:
            distributed.recv(tensor, 0)
        times_s.append(time.monotonic() - begin_s)
    distributed.barrier()
    distributed.destroy_process_group()
    return times_s


if __name__ == "__main__":
    told = json.loads(sys.argv[1])
    print(json.dumps(gloo(told) if told["transport"] == "gloo" else asyncio.run(live(told))))
