"""A link that is cut without a word: nothing is closed, nothing comes any more; after a while the rank is found lost.

The virtual world is tried with the same cuts in tests/unit/worlds/test_virtual_giving_up.py.
"""

from __future__ import annotations

import asyncio
import ctypes
import subprocess
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack
from pathlib import Path

import live_world
import numpy as np
import pytest
from cut_links import LOST, SENDING, SHARES

from e2c_dl.errors import PeerLost
from e2c_dl.strategies.base import Message
from e2c_dl.worlds.live import Network, SocketOptions
from e2c_dl.worlds.live.mailbox import MailKey

pytestmark = pytest.mark.local

ADDRESSES = ("198.19.255.1", "198.19.255.2")
GIVE_UP_S = 4.0  # a fifth of what a run is given: the same cuts, in a fifth of the time
OPTIONS = SocketOptions(unacknowledged_ms=round(GIVE_UP_S * 1000))
CLONE_NEWNET = 0x40000000


class Namespace:
    """A network namespace that lives as long as its process."""

    def __init__(self) -> None:
        self.process = subprocess.Popen(
            ["unshare", "--net", "sh", "-c", "ip link set lo up && echo up && exec cat"],
            stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True,
        )  # fmt: skip
        assert self.process.stdout is not None
        assert self.process.stdout.readline() == "up\n"

    def run(self, *argv: str) -> None:
        subprocess.run(["nsenter", "--target", str(self.process.pid), "--net", *argv], check=True)

    def enter(self) -> None:
        """Move the calling thread into it, for good."""
        with open(f"/proc/{self.process.pid}/ns/net", "rb") as net:
            if ctypes.CDLL(None, use_errno=True).setns(net.fileno(), CLONE_NEWNET):
                raise OSError(ctypes.get_errno(), "setns")


@pytest.fixture
def joined() -> Iterator[tuple[Namespace, Namespace]]:
    """Two namespaces with a cable between them."""
    namespaces = (Namespace(), Namespace())
    try:
        pids = [str(each.process.pid) for each in namespaces]
        namespaces[0].run("ip", "link", "add", "cut0", "type", "veth", "peer", "name", "cut0", "netns", pids[1])
        for namespace, address in zip(namespaces, ADDRESSES, strict=True):
            namespace.run("ip", "address", "add", f"{address}/24", "dev", "cut0")
            namespace.run("ip", "link", "set", "cut0", "up")
        yield namespaces
    finally:
        for namespace in namespaces:
            namespace.process.kill()
            namespace.process.communicate()


@pytest.mark.parametrize("sends", SENDING.values(), ids=SENDING.keys())
@pytest.mark.parametrize("share", SHARES.values(), ids=SHARES.keys())
def test_both_ends_lose_each_other_after_a_cut_that_is_too_long(
    tmp_path: Path, joined: tuple[Namespace, Namespace], sends: bool, share: float
) -> None:
    message = Message(kind="k", payload=np.zeros(1000, dtype=np.float32))
    key = MailKey(0, "k", -1, -1, -1)

    async def scene() -> None:
        with ExitStack() as stack:
            networks = opened(stack, tmp_path, joined)
            where = [network.address for network in networks]
            joined[0].enter()  # a socket belongs to where its thread is when it is made
            await asyncio.gather(*(network.connect(where, [(0, 1)]) for network in networks))
            networks[0].post(1, message, 0, 1, 0)
            await networks[1].mailboxes.get(key)
            waiting = networks[1].mailboxes.get(key)
            joined[0].run("ip", "link", "set", "cut0", "down")
            if sends:
                networks[0].post(1, message, 0, 1, 0)
            await asyncio.sleep(share * GIVE_UP_S)  # the cut itself
            joined[0].run("ip", "link", "set", "cut0", "up")
            if share == LOST:
                with pytest.raises(PeerLost, match="lost rank 0"):
                    await waiting
                with pytest.raises(PeerLost, match="lost rank 1"):
                    await networks[0].post(1, message, 0, 1, 0)
            else:
                await networks[0].post(1, message, 0, 1, 0)
                await waiting

    with ThreadPoolExecutor(1) as thread:  # it stays in the namespace, and ends with it
        thread.submit(asyncio.run, scene()).result()


def opened(stack: ExitStack, directory: Path, namespaces: tuple[Namespace, Namespace]) -> list[Network]:
    networks = []
    for rank, recorder in enumerate(live_world.recorders(stack, directory, 2)):
        namespaces[rank].enter()
        network = Network(
            ADDRESSES[rank], rank=rank, size=2, key=live_world.KEY, recorder=recorder,
            largest_payload_bytes=live_world.LARGEST, options=OPTIONS,
        )  # fmt: skip
        stack.callback(network.abort)
        networks.append(network)
    return networks
