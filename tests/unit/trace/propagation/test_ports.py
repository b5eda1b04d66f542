"""Ports' counters, on made-up trees as the kernel has them: what they rose by, and what is said of it."""

from __future__ import annotations

import time
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from e2c_dl.archive.host_records import HostRecords
from e2c_dl.archive.read import ReadArchive
from e2c_dl.archive.records import HostFacts
from e2c_dl.archive.run import Outcome, Run
from e2c_dl.trace.model import SPAN, ClockAlignment, Collective, Phase, RankTrace, Trace
from e2c_dl.trace.propagation.connections import Connections
from e2c_dl.trace.propagation.ports import MOST_PORTS, PortCount, PortFacts, PortTally, past_tcp
from e2c_dl.trace.recording.recorder import Recorder

TITLES = "Inter-|   Receive  |  Transmit\n face |bytes packets |bytes packets\n"
MB = 1_000_000


def devices(root: Path, **sent_bytes: int) -> None:
    """Each has received twice what it has sent."""
    lines = [f"{name:>6}: {2 * sent} 1 0 0 0 0 0 0 {sent} 1 0 0 0 0 0 0\n" for name, sent in sent_bytes.items()]
    (root / "proc/self/net").mkdir(parents=True, exist_ok=True)
    (root / "proc/self/net/dev").write_text(TITLES + "".join(lines))


def adapter(root: Path, port: str, sent: int | str, received: int = 0) -> None:
    name, _, number = port.partition("/")
    folder = root / "sys/class/infiniband" / name / "ports" / number / "counters"
    folder.mkdir(parents=True, exist_ok=True)
    (folder / "port_xmit_data").write_text(f"{sent}\n")
    (folder / "port_rcv_data").write_text(f"{received}\n")


def test_counters_are_told_as_what_they_rose_by(tmp_path: Path) -> None:
    devices(tmp_path, lo=5, eth0=1000)
    adapter(tmp_path, "mlx5_0/1", 100, 7)
    tally = PortTally(iter((10, 20, 30)).__next__, tmp_path)
    first = tally.look()
    assert (first.network, first.rdma) == ({"eth0": PortCount()}, {"mlx5_0/1": PortCount()}), "no loopback"
    devices(tmp_path, lo=5, eth0=1500)
    adapter(tmp_path, "mlx5_0/1", 250, 8)
    tally.look()
    devices(tmp_path, lo=5, eth0=1600)
    adapter(tmp_path, "mlx5_0/1", 30, 0)  # somebody has set it to 0
    found = tally.look()
    assert (found.since_ns, found.until_ns, found.unknown) == (10, 30, {})
    assert found.network == {"eth0": PortCount(600, 1200)}
    assert found.rdma == {"mlx5_0/1": PortCount(4 * (150 + 30), 4)}, "an adapter counts units of 4 octets"


def test_what_does_not_tell_is_named_with_why(tmp_path: Path) -> None:
    adapter(tmp_path, "old/1", 2**32 - 1)
    adapter(tmp_path, "odd/1", "N/A (no PMA)")
    found = PortTally(time.monotonic_ns, tmp_path).look()
    assert (found.network, found.rdma) == ({}, {})
    assert set(found.unknown) == {"old/1", "odd/1", "its network devices"}
    assert "stands at its end" in found.unknown["old/1"]


def test_of_very_many_devices_some_are_looked_at(tmp_path: Path) -> None:
    devices(tmp_path, **{f"veth{number:03}": 1 for number in range(MOST_PORTS + 6)})
    found = PortTally(time.monotonic_ns, tmp_path).look()
    assert len(found.network) == MOST_PORTS
    assert list(found.unknown) == ["6 more network devices"]


def test_this_machine_can_be_looked_at() -> None:
    found = PortTally(time.monotonic_ns).look()
    assert "its network devices" not in found.unknown
    assert all(count == PortCount() for count in found.network.values())


def trace(moved_bytes: int, **wire_bytes: float) -> Trace:
    """Two ranks, one per host, that moved so much each, and whose connections sent ``wire_bytes``."""
    spans = np.zeros(1, dtype=SPAN)
    spans["phase"], spans["kind"], spans["nbytes"] = Phase.COLLECTIVE, Collective.ALL_REDUCE, moved_bytes
    ranks = tuple(
        RankTrace(rank=rank, host=host, layer="all", spans=spans, clock=ClockAlignment())
        for rank, host in enumerate(("a", "b"))
    )
    sent = {rank: wire_bytes[host] for rank, host in enumerate(("a", "b")) if host in wire_bytes}
    return Trace(ranks=ranks, facts={}, connections=Connections(links=(), wire_bytes=sent))


def counted(rdma: int = 0, network: int = 0, **unknown: str) -> PortFacts:
    return PortFacts(
        since_ns=0, until_ns=1, rdma={"mlx5_0/1": PortCount(rdma)}, network={"eth0": PortCount(network)},
        unknown=unknown,
    )  # fmt: skip


APART = {"a": "a", "b": "b"}


def test_what_went_past_tcp_is_said_of_each_machine() -> None:
    found = past_tcp(trace(10 * MB, a=2.0 * MB, b=9.0 * MB), APART, {"a": counted(12 * MB), "b": counted(0, 9 * MB)})
    (said,) = found
    assert said.startswith("a: 12.0 MB by mlx5_0/1 left by its RDMA ports, 2.0 MB by all TCP connections")
    assert "at least 10.0 MB went past TCP" in said


def test_ranks_of_one_machine_share_its_ports() -> None:
    both, one = counted(20 * MB), counted(19 * MB)  # the one that looked longer saw more
    (said,) = past_tcp(trace(10 * MB, a=3.0 * MB, b=4.0 * MB), {"a": "m", "b": "m"}, {"a": both, "b": one})
    assert "m: 20.0 MB by mlx5_0/1" in said
    assert "7.0 MB by all TCP connections" in said
    assert "at least 13.0 MB" in said


def test_of_network_devices_only_what_could_hide_a_collective_is_said() -> None:
    some = trace(40 * MB, a=1.0 * MB)
    assert past_tcp(some, APART, {"a": counted(0, 10 * MB)}) == []
    (said,) = past_tcp(some, APART, {"a": counted(0, 30 * MB)})
    assert "30.0 MB by eth0 left by its network devices" in said


def test_without_what_tcp_sent_nothing_is_concluded() -> None:
    for wire in ({}, {"a": np.nan}):
        assert past_tcp(trace(10 * MB, **wire), APART, {"a": counted(99 * MB, 99 * MB)}) == []
    alone = replace(trace(10 * MB, a=0.0), ranks=trace(0).ranks[:1])
    assert past_tcp(alone, APART, {"a": counted(99 * MB)}) == [], "it has nobody to send to"


def test_ports_that_do_not_tell_are_said() -> None:
    (said,) = past_tcp(trace(0, a=0.0), APART, {"a": counted(mlx5_1="not permitted")})
    assert said == "a: what left by mlx5_1 is unknown: not permitted"


@pytest.mark.parametrize("damaged", [False, True])
def test_an_archive_tells_it_among_the_limits_of_its_connections(tmp_path: Path, damaged: bool) -> None:
    for rank, host in enumerate(("a", "b")):
        records = HostRecords(tmp_path / "hosts" / host)
        records.path.mkdir(parents=True)
        with Recorder(records.spans, rank=rank, host=host, layer="all") as recorder:
            recorder.record(Phase.ITERATION, 0, 0, 1, iteration=0)
        facts = HostFacts(format=2, host_name=host, ports=counted(4, mlx5_1="not permitted"))
        records.write_facts(facts)
        assert records.facts() == facts
    if damaged:
        (tmp_path / "hosts/b/facts.json").write_text("{")
    run = Run(run_id="0", outcome=Outcome.FINISHED)
    said = ReadArchive(path=tmp_path, run=run).trace().connections.limitations
    assert said[0] == "a: what left by mlx5_1 is unknown: not permitted"
    assert ("is not valid JSON" in said[1]) is damaged
