"""Times of messages on virtual links, against figures worked out by hand."""

from __future__ import annotations

from collections.abc import Callable, Coroutine, Iterator, Mapping, Sequence
from dataclasses import replace
from itertools import count
from typing import Any

import numpy as np
import pytest
import virtual_world
from virtual_world import scripted

from e2c_dl.errors import InputError
from e2c_dl.ethernet import wire_bits
from e2c_dl.scenario.model import Tcp
from e2c_dl.strategies.allreduce import Allreduce
from e2c_dl.strategies.base import Message, Worker
from e2c_dl.topology import Host, Link, Topology
from e2c_dl.trace.messages import conservation
from e2c_dl.trace.model import Phase
from e2c_dl.worlds.live.frames import HEADER_BYTES
from e2c_dl.worlds.virtual import HostModel, LinkModel, SharedRate, link_models
from e2c_dl.worlds.virtual.capacity import Capacity
from e2c_dl.worlds.virtual.kernel import FOREVER
from e2c_dl.worlds.virtual.links import MESSAGE_HEADER_BYTES
from e2c_dl.worlds.virtual.shape import shape

Script = Callable[[Worker], Coroutine[Any, Any, None]]

TCP = Tcp(congestion_control="cubic", slow_start_after_idle=False)
FLOATS = 25_000
BITS = wire_bits(MESSAGE_HEADER_BYTES + 4 * FLOATS)
VECTOR = shape(FLOATS, "float32")


def send_to_last(
    sends: Mapping[int, Sequence[int]], links: Mapping[tuple[int, int], LinkModel], size: int = 2,
    bottlenecks: Sequence[SharedRate] = (), on_hosts: Sequence[HostModel] | None = None,
) -> virtual_world.Run:  # fmt: skip
    """Ranks send messages of these priorities, numbered by step, to the last rank, which receives them all."""

    async def script(worker: Worker) -> None:
        last = worker.size - 1
        if worker.rank != last:
            sent = [
                worker.send(last, Message(kind="bulk", step=step, payload=VECTOR), priority)
                for step, priority in enumerate(sends[worker.rank])
            ]
            for each in sent:
                await each
        else:
            for src, priorities in sends.items():
                for step in range(len(priorities)):
                    await worker.receive("bulk", src=src, step=step)

    return virtual_world.run(scripted(script), size=size, links=links, bottlenecks=bottlenecks, on_hosts=on_hosts)


def arrivals_ns(run: virtual_world.Run, src: int) -> list[int]:
    spans = run.spans(len(run.hosts) - 1, Phase.RECEIVE)
    return sorted(spans["end_ns"][spans["src"] == src].tolist())


def one_link(**model: Any) -> dict[tuple[int, int], LinkModel]:
    return {(0, 1): LinkModel(rate_bps=8e6, **model)}


SERVICE_NS = round(BITS / 8e6 * 1e9)


def test_wire_bits_are_of_full_frames() -> None:
    assert wire_bits(1448) == 8 * 1514
    assert wire_bits(1449) == 8 * (1449 + 2 * 66)
    assert wire_bits(0) == 8 * 66
    assert MESSAGE_HEADER_BYTES == HEADER_BYTES


def test_messages_queue_for_the_rate_and_delays_overlap() -> None:
    run = send_to_last({0: [0, 0, 0]}, one_link(delay_s=0.05))
    assert arrivals_ns(run, 0) == [50_000_000 + n * SERVICE_NS for n in (1, 2, 3)]
    assert run.result.end_ns == 50_000_000 + 3 * SERVICE_NS


def test_a_pair_without_a_link_is_not_shaped() -> None:
    assert send_to_last({0: [0]}, {}).result.end_ns == 0


def test_what_fits_the_buffer_is_gone_at_once() -> None:
    large = send_to_last({0: [0, 0]}, one_link(send_buffer_bytes=1 << 20))
    assert large.spans(0, Phase.SEND)["end_ns"].tolist() == [0, 0]
    none = send_to_last({0: [0, 0]}, one_link(send_buffer_bytes=0))
    assert none.spans(0, Phase.SEND)["end_ns"].tolist() == [SERVICE_NS, 2 * SERVICE_NS]
    assert arrivals_ns(large, 0) == arrivals_ns(none, 0)


def test_priority_overtakes_what_is_queued_and_not_what_is_leaving() -> None:
    run = send_to_last({0: [5, 5, 1]}, one_link(send_buffer_bytes=0))
    sends = run.spans(0, Phase.SEND)
    assert sends["seq"].tolist() == [0, 1, 2]
    awaited = run.spans(1, Phase.AWAIT_MESSAGE)  # in order of step
    assert awaited["seq"].tolist() == [0, 2, 1]


@pytest.mark.parametrize("shared", [False, True])
def test_lower_rates_and_outages_hold_what_is_leaving(shared: bool) -> None:
    half_ns = SERVICE_NS // 2
    whole, half = LinkModel(rate_bps=8e6), LinkModel(rate_bps=4e6)  # half the rate for the second half
    changes = [(0.0, whole), (half_ns / 1e9, replace(half, down=True)), (half_ns / 1e9 + 1.0, half)]
    model = one_link(send_buffer_bytes=0, conditions=lambda: iter(changes))
    bottlenecks = [SharedRate(rate_bps=1e12, links=((0, 1),))] if shared else []
    run = send_to_last({0: [0]}, model, bottlenecks=bottlenecks)
    assert run.result.end_ns == pytest.approx(2 * SERVICE_NS - half_ns + half_ns + 1_000_000_000 - half_ns, abs=4)


@pytest.mark.parametrize("shared", [False, True])
def test_conditions_that_come_again_and_again(shared: bool) -> None:
    fast, slow = LinkModel(rate_bps=8e6, delay_s=0.01), LinkModel(rate_bps=4e6, delay_s=0.02)

    def periodic() -> Iterator[tuple[float, LinkModel]]:  # half of the time slow, for ever
        for lap in count():
            yield lap * 2 * SERVICE_NS / 1e9, fast
            yield (lap * 2 + 1) * SERVICE_NS / 1e9, slow

    model = {(0, 1): LinkModel(send_buffer_bytes=0, conditions=periodic)}
    bottlenecks = [SharedRate(rate_bps=1e12, links=((0, 1),))] if shared else []
    run = send_to_last({0: [0] * 6}, model, bottlenecks=bottlenecks)
    # Two service times carry 1.5 messages: the third, fast, the second half slow, half fast, and so on.
    departures = [1, 2.5, 4, 5, 6.5, 8]
    delays_ns = [20e6, 10e6, 10e6, 20e6, 10e6, 10e6]  # as it is in the moment of departure; order is kept
    expected = np.maximum.accumulate(np.array(departures) * SERVICE_NS + delays_ns)
    assert arrivals_ns(run, 0) == pytest.approx(expected.tolist(), abs=16)


def test_a_bottleneck_whose_rate_changes() -> None:
    links = {(0, 2): LinkModel(rate_bps=1e9), (1, 2): LinkModel(rate_bps=1e9)}
    rates = [(0.0, 8e6), (SERVICE_NS / 1e9, 4e6)]
    bottlenecks = [SharedRate(rate_bps=1e9, links=((0, 2), (1, 2)), rates=lambda: iter(rates))]
    run = send_to_last({0: [0], 1: [0]}, links, size=3, bottlenecks=bottlenecks)
    assert run.result.end_ns == pytest.approx(3 * SERVICE_NS, abs=8)


def test_a_bottleneck_is_shared_fairly_while_both_are_busy() -> None:
    links = {(0, 2): LinkModel(rate_bps=1e9), (1, 2): LinkModel(rate_bps=1e9)}
    bottlenecks = [SharedRate(rate_bps=8e6, links=((0, 2), (1, 2)))]
    run = send_to_last({0: [0], 1: [0, 0]}, links, size=3, bottlenecks=bottlenecks)
    assert arrivals_ns(run, 0) == pytest.approx([2 * SERVICE_NS], abs=4)
    assert arrivals_ns(run, 1) == pytest.approx([2 * SERVICE_NS, 3 * SERVICE_NS], abs=4)


def test_who_cannot_use_its_share_leaves_it_to_others() -> None:
    links = {(0, 2): LinkModel(rate_bps=2e6), (1, 2): LinkModel(rate_bps=1e9)}
    bottlenecks = [SharedRate(rate_bps=8e6, links=((0, 2), (1, 2)))]
    run = send_to_last({0: [0], 1: [0, 0, 0]}, links, size=3, bottlenecks=bottlenecks)
    assert arrivals_ns(run, 0) == pytest.approx([4 * SERVICE_NS], abs=4)
    assert arrivals_ns(run, 1) == pytest.approx([n * SERVICE_NS * 8 / 6 for n in (1, 2, 3)], abs=8)


def test_an_access_alone_is_as_a_link_of_its_rate() -> None:
    alone = send_to_last(
        {0: [3, 2, 1]}, one_link(delay_s=0.01), bottlenecks=[SharedRate(rate_bps=4e6, links=((0, 1),))]
    )
    slower = send_to_last({0: [3, 2, 1]}, {(0, 1): LinkModel(rate_bps=4e6, delay_s=0.01)})
    for rank in range(2):
        for field in ("phase", "start_ns", "end_ns"):
            ours, theirs = (np.sort(run.spans(rank), order=["phase", "seq", "end_ns"]) for run in (alone, slower))
            assert np.allclose(ours[field], theirs[field], rtol=0, atol=8)


def test_with_jitter_a_message_is_there_when_the_latest_of_its_segments_is() -> None:
    run = send_to_last({0: [0] * 200}, {(0, 1): LinkModel(rate_bps=8e6, delay_s=0.05, jitter_s=0.02)})
    late_ns = np.array(arrivals_ns(run, 0)) - SERVICE_NS * np.arange(1, 201)
    assert 30_000_000 <= late_ns.min() < late_ns.max() <= 70_000_000
    # of the last segments, 1.5 ms apart, the k-th from behind may be late by 20 ms - 1.5 k ms at most
    draws_ms = np.random.default_rng(1).uniform(30, 70, (999, 40)) - 1.514 * np.arange(40)
    expected_ms = np.mean(np.max(draws_ms, axis=1))
    assert late_ns.mean() / 1e6 == pytest.approx(expected_ms, abs=1.0)
    assert np.all(np.diff(run.spans(1, Phase.RECEIVE)["seq"]) == 1)


def test_capacity_inverts_itself() -> None:
    rates = ((0.0, 1.0), (0.5, 0.0), (0.75, 1.0), (1.0, 2.0), (2.0, 0.0), (3.0, 0.5))
    capacity = Capacity((round(from_s * 1e9), bits_per_ns) for from_s, bits_per_ns in rates)
    assert capacity.finish_ns(0, 5e8) == 500_000_000
    assert capacity.finish_ns(0, 5e8 + 1e8) == 850_000_000
    assert capacity.finish_ns(600_000_000, 0.0) == 600_000_000
    assert capacity.finish_ns(1_500_000_000, 1e9 + 5e8) == 4_000_000_000
    assert capacity.begin_ns(4_000_000_000, 1e9 + 5e8) == 1_500_000_000
    assert Capacity([(0, 1.0), (10**9, 0.0)]).finish_ns(0, 2e9) == FOREVER


@pytest.mark.parametrize(
    "wrong",
    [
        {"rate_bps": 0.0},
        {"loss": 1.0, "tcp": TCP},
        {"loss": 0.1},
        {"delay_s": -1.0},
        {"tcp": replace(TCP, congestion_control="bbr")},
    ],
)
def test_models_that_make_no_sense_are_refused(wrong: dict[str, Any]) -> None:
    with pytest.raises(InputError, match="correct LinkModel"):
        LinkModel(**wrong)


def test_a_topology_becomes_models_of_the_links_between_ranks() -> None:
    def host(name: str, rank: int | None) -> Host:
        return Host(name=name, layer="edge", service="Trainer", service_id=name, role="", rank=rank)

    link = Link(rate_bps=1e6, delay_s=0.01, loss=0.1)
    topology = Topology(
        hosts=(host("a", 0), host("b", 1), host("relay", None)), links={("a", "b"): link, ("a", "relay"): link}
    )
    assert link_models(topology, TCP) == {(0, 1): LinkModel(rate_bps=1e6, delay_s=0.01, loss=0.1, tcp=TCP)}
    assert link_models(topology, None) == {(0, 1): LinkModel(rate_bps=1e6, delay_s=0.01)}


def test_where_a_delay_falls_no_acknowledgement_overtakes_another() -> None:
    tcp = Tcp(congestion_control="cubic", slow_start_after_idle=False)
    steady = LinkModel(rate_bps=20e6, delay_s=0.005, tcp=tcp)
    steps = [(0.1 * turn, replace(steady, delay_s=0.005 if turn % 2 else 0.085)) for turn in range(100)]
    back = replace(steady, conditions=lambda: iter(steps))
    links = {(0, 1): steady, (1, 0): back}
    run = virtual_world.run(
        Allreduce, size=2, seed=1, links=links, of=virtual_world.profile((120_000, 60_000)), iterations=20
    )
    sent = sum(row.sent_bytes for row in conservation(run.trace))
    assert sent == sum(row.received_bytes for row in conservation(run.trace)) > 0
