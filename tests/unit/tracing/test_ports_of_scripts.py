"""Ports of a script's host, on a made-up tree: what is left of them in the rank's facts."""

from __future__ import annotations

from pathlib import Path

import pytest

from e2c_dl.archive.host_records import HostRecords
from e2c_dl.archive.records import HostFacts
from e2c_dl.errors import ArchiveError
from e2c_dl.trace.propagation.ports import PortCount
from e2c_dl.trace.recording.errands import Errands
from e2c_dl.tracing.rendezvous import Peer, Ranks
from e2c_dl.tracing.samplers.counters import EVERY_S
from e2c_dl.tracing.samplers.ports import Ports

OWN = Peer(rank=0, host="h", pid=1, boot="a", addresses=())
RANKS = Ranks(own=OWN, world_size=1, peers=(OWN,))


class Recording:
    """What a session offers its samplers."""

    iteration = -1

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.errands = Errands()
        self.limitations: list[str] = []
        HostRecords(folder).write_facts(HostFacts(host_name="h"))

    def limited(self, sentence: str) -> None:
        self.limitations.append(sentence)


def sent(root: Path, units: int) -> None:
    folder = root / "sys/class/infiniband/mlx5_0/ports/1/counters"
    folder.mkdir(parents=True, exist_ok=True)
    for name in ("port_xmit_data", "port_rcv_data"):
        (folder / name).write_text(f"{units}\n")


def ports_of(folder: Path) -> dict[str, PortCount]:
    facts = HostRecords(folder).facts()
    assert facts is not None and facts.host_name == "h", "the rest of the facts is kept"
    return {} if facts.ports is None else facts.ports.rdma


def test_facts_hold_what_was_sent_up_to_now_and_at_the_end(tmp_path: Path) -> None:
    sent(tmp_path, 1000)
    recording, ports = Recording(tmp_path), Ports(tmp_path)
    ports.on_ready(RANKS, recording)
    sent(tmp_path, 1100)
    assert ports._look_again() == EVERY_S
    assert ports_of(tmp_path) == {"mlx5_0/1": PortCount(400, 400)}
    sent(tmp_path, 1300)
    ports.on_end()
    assert ports_of(tmp_path) == {"mlx5_0/1": PortCount(1200, 1200)}
    assert recording.limitations == []


def test_a_rank_whose_others_never_came_leaves_nothing(tmp_path: Path) -> None:
    Recording(tmp_path)
    Ports(tmp_path).on_end()
    assert ports_of(tmp_path) == {}


def test_what_cannot_be_written_is_said_and_not_tried_again(tmp_path: Path) -> None:
    recording, ports = Recording(tmp_path), Ports(tmp_path)
    ports.on_ready(RANKS, recording)
    (tmp_path / "facts.json").write_text("{")
    assert ports._look_again() is None
    (said,) = recording.limitations
    assert said.startswith("what its ports count ends here: ")
    with pytest.raises(ArchiveError):
        ports.on_end()
