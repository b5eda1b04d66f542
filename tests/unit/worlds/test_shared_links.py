"""Links that share bottlenecks: rates are max-min fair at any moment, what is idle costs nothing, and waiting shows."""

from __future__ import annotations

from heapq import heappop
from typing import Any

import numpy as np
import pytest
import virtual_world
from hypothesis import given, settings
from hypothesis import strategies as st

from e2c_dl.ethernet import wire_bits
from e2c_dl.scenario.model import Tcp
from e2c_dl.strategies.base import Message, Worker
from e2c_dl.topology import Discipline
from e2c_dl.trace.model import Phase
from e2c_dl.worlds.virtual import LinkModel, SharedRate
from e2c_dl.worlds.virtual.capacity import Capacity
from e2c_dl.worlds.virtual.kernel import Kernel
from e2c_dl.worlds.virtual.links import MESSAGE_HEADER_BYTES
from e2c_dl.worlds.virtual.shared import BitStream, Fluid

RATES = st.sampled_from([1.0, 2.0, 3.0, 7.0, 10.0])  # bits per ns; equal ones meet their limits together


def flowing(fluid: Fluid, pair: tuple[int, int], rate: float, bits: float) -> BitStream:
    """The link ``pair``, which can do ``rate`` alone, and has ``bits`` to send."""
    flow = fluid.flows[pair]
    flow.capacity, flow.end = Capacity([(0, rate)]), bits
    fluid.mark(flow, bits, lambda _: None, None)
    return flow


def passes(kernel: Kernel) -> Any:
    """Let time pass: once per event."""
    while kernel.heap:
        kernel.now_ns, _, action, argument = heappop(kernel.heap)
        action(argument)
        yield kernel.now_ns


@settings(deadline=None)
@given(
    own=st.lists(st.tuples(RATES, st.integers(1, 500)), min_size=1, max_size=8),
    lines=st.lists(st.tuples(RATES, st.sets(st.integers(0, 7), min_size=1)), min_size=1, max_size=3),
)
def test_rates_are_max_min_fair_whoever_sends(
    own: list[tuple[float, int]], lines: list[tuple[float, set[int]]]
) -> None:
    kernel = Kernel()
    shared = [SharedRate(rate_bps=rate * 1e9, links=tuple((link, 9) for link in links)) for rate, links in lines]
    fluid = Fluid(kernel, shared, *((link, 9) for link in range(len(own))))
    flows = [flowing(fluid, (link, 9), rate, bits) for link, (rate, bits) in enumerate(own)]
    fluid.changed()
    for _ in passes(kernel):
        busy = [flow for flow in flows if flow.busy]
        assert [flow.rate for flow in flows if not flow.busy] == [0.0] * (len(flows) - len(busy))
        through = [[flow for flow in busy if line in flow.bottlenecks] for line in range(len(lines))]
        full = []
        for (rate, _), users in zip(lines, through, strict=True):
            assert sum(flow.rate for flow in users) <= rate * (1 + 1e-9)
            full.append(sum(flow.rate for flow in users) >= rate * (1 - 1e-9))
        for flow in busy:
            most = [max(each.rate for each in through[line]) for line in flow.bottlenecks if full[line]]
            limited = flow.rate == pytest.approx(own[flows.index(flow)][0])
            assert limited or any(flow.rate >= rate * (1 - 1e-9) for rate in most)
    assert [flow.position for flow in flows] == pytest.approx([bits for _, bits in own], abs=0.01)


def test_of_many_links_through_a_bottleneck_those_that_are_idle_are_not_looked_at() -> None:
    kernel = Kernel()
    fluid = Fluid(kernel, [SharedRate(rate_bps=1e9, links=tuple((link, 9) for link in range(9)))])
    flows = [flowing(fluid, (link, 9), 10.0, bits) for link, bits in ((3, 100.0), (5, 200.0))]
    fluid.flows = dict.fromkeys(fluid.flows)  # type: ignore[arg-type]  # nobody can look at any
    fluid.changed()
    assert list(passes(kernel))[-1] == 300  # 100 bits of each at half of 1 bit/ns, and 100 more
    assert [flow.busy for flow in flows] == [False, False]


def test_while_the_same_links_send_at_the_same_rates_nothing_is_shared_anew(monkeypatch: pytest.MonkeyPatch) -> None:
    kernel = Kernel()
    fluid = Fluid(kernel, [SharedRate(rate_bps=1e9, links=tuple((link, 9) for link in range(9)))])
    flow = flowing(fluid, (0, 9), 10.0, 1000.0)
    for position in range(100, 1000, 100):
        fluid.mark(flow, position, lambda _: None, None)
    asked = []
    rate_at = Capacity.rate_at
    monkeypatch.setattr(Capacity, "rate_at", lambda own, time_ns: asked.append(time_ns) or rate_at(own, time_ns))
    fluid.changed()
    assert list(passes(kernel)) == [*range(100, 1001, 100)]
    assert {*asked} <= {0, 1000}


@pytest.mark.parametrize("discipline", list(Discipline))
def test_a_message_begins_to_arrive_when_it_has_waited_for_the_line(discipline: Discipline) -> None:
    """It is one segment, which waits behind those of another link: it arrives as fast as the line carries it."""
    small, line_bps = np.zeros(250, np.float32), 8e6

    async def script(worker: Worker) -> None:
        if worker.rank == 0:
            await worker.send(2, Message(kind="bulk", payload=np.zeros(25_000, np.float32)))
        elif worker.rank == 1:
            await worker.receive_any("nothing", timeout_s=0.01)
            await worker.send(2, Message(kind="small", payload=small))
        else:
            await worker.receive("small", src=1)
            await worker.receive("bulk", src=0)

    tcp = Tcp(congestion_control="cubic", slow_start_after_idle=False)
    links = virtual_world.everywhere(3, LinkModel(rate_bps=1e9, delay_s=0.005, tcp=tcp))
    shared = SharedRate(rate_bps=line_bps, links=((0, 2), (1, 2)), discipline=discipline)
    run = virtual_world.run(virtual_world.scripted(script), size=3, links=links, bottlenecks=[shared])
    spans = run.spans(2, Phase.RECEIVE)
    (span,) = spans[spans["src"] == 1]
    assert span["end_ns"] - span["start_ns"] <= wire_bits(MESSAGE_HEADER_BYTES + small.nbytes) / line_bps * 1e9
