"""What must hold of every replay: nothing arrives before it is posted, bounds bound, predictions agree with re-runs."""

import math
import random
from collections.abc import Mapping
from dataclasses import dataclass, replace

import numpy as np
import pytest
import virtual_world
from hypothesis import given, settings
from hypothesis import strategies as st
from synthetic import Ring, simulate

from e2c_dl import strategies
from e2c_dl.diagnosis.model import Element, ElementKind
from e2c_dl.diagnosis.piecewise import Piecewise
from e2c_dl.diagnosis.replay.graph import times_ns
from e2c_dl.diagnosis.replay.replay import Replay, prepare
from e2c_dl.diagnosis.replay.services import costs
from e2c_dl.diagnosis.replay.whatif import Change, WhatIf, scaled
from e2c_dl.scenario.schedule import Schedule
from e2c_dl.topology import Link
from e2c_dl.trace.messages import join
from e2c_dl.trace.model import COMPUTE, Phase
from e2c_dl.worlds.virtual import HostModel, LinkModel

SETTINGS: Mapping[str, dict[str, int]] = {
    "allreduce": {}, "parameterserver": {}, "localsgd": {"period": 2},
    "diloco": {"period_within": 2, "period_between": 4},
}  # fmt: skip
ORDERLY = ("parameterserver", "localsgd", "diloco")
"""No two of their tasks send on one link at a time: whatever changes, messages are served in the same order."""


def ring(seed: int) -> Ring:
    """A run in which readers are late, wake-ups take time and clocks err."""
    draw = random.Random(seed)
    size = draw.randint(2, 5)
    rates = [draw.choice([20e6, 40e6, 100e6]) for _ in range(size)]
    return Ring(
        compute_s=tuple(draw.choice([0.02, 0.05]) for _ in range(size)),
        links=tuple(Link(rate_bps=rate, delay_s=draw.choice([0.001, 0.005, 0.015])) for rate in rates),
        bucket_bytes=(draw.choice([20_000, 200_000]), 100_000),
        iterations=3, wake_s=1e-3, read_s=draw.choice([0.0, 1e-3, 0.02]), clock_error_ns=draw.choice([0, 200_000]),
        buffer_bytes=draw.choice([60_000, 4_000_000]), compute_noise=0.1, seed=seed,
    )  # fmt: skip


def any_whatif(replay: Replay, draw: random.Random) -> WhatIf:
    """Some elements faster or slower, links with less delay, hosts with shorter spans."""
    changed = draw.sample(replay.elements, draw.randint(1, len(replay.elements)))
    return WhatIf(
        changes=tuple(
            Change(
                element=element, phases=frozenset(draw.sample(sorted(COMPUTE), 3)),
                scale=Piecewise(starts_s=np.array([0.0, 0.2]), values=np.array(draw.sample([0.0, 0.5, 1.0, 3.0], 2))),
                less_s=Piecewise.constant(draw.choice([0.0, 0.001, 10.0])),
            )
            for element in changed
        )
    )  # fmt: skip


@settings(max_examples=40, deadline=None)
@given(seed=st.integers(0, 10**9), assumed_s=st.sampled_from([0.0, 0.001, 0.05, 1.0]))
def test_whatever_changes_and_whatever_delay_is_assumed_no_message_is_served_before_it_was_posted(
    seed: int, assumed_s: float
) -> None:
    trace = simulate(ring(seed))
    replay = prepare(
        trace, join(trace), dict.fromkeys(((a, b) for a in range(5) for b in range(5)), round(assumed_s * 1e9))
    )
    graph, queue = replay.graph, replay.graph.queue
    times = times_ns(graph, costs(replay.services, graph.moments, queue, any_whatif(replay, random.Random(seed))))
    arrived = times[len(graph.posts) : len(graph.posts) + len(queue.link)]
    clocks_err_ns = np.maximum(0, queue.start_ns - queue.arrived_ns)
    assert (arrived >= times[queue.posted] - clocks_err_ns - 1).all()
    assert (queue.service_ns >= 0).all()


@dataclass(frozen=True, kw_only=True)
class Asked:
    """A run of the virtual world that can be asked for again with something changed."""

    strategy: str
    seed: int
    iterations: int = 10
    links: Mapping[tuple[int, int], LinkModel]
    hosts: tuple[HostModel, ...]

    @classmethod
    def drawn(cls, strategy: str, seed: int) -> "Asked":
        """Four hosts in two layers, links and hosts of different speeds."""
        draw = random.Random(f"{strategy} {seed}")
        links = {
            pair: LinkModel(rate_bps=draw.choice([10e6, 20e6, 100e6]), delay_s=draw.choice([0.001, 0.005, 0.02]))
            for pair in virtual_world.everywhere(4, LinkModel())
        }
        of = virtual_world.profile((120_000, 60_000), per_sample_s=draw.choice([5e-3, 20e-3]))
        factors = [draw.choice([1, 2, 3]) for _ in range(4)]
        hosts = virtual_world.hosts(4, of=of, noise=0.02, factors=factors, layers=["edge", "edge", "cloud", "cloud"])
        return cls(strategy=strategy, seed=seed, links=links, hosts=hosts)

    def twice_as_fast(self, element: Element) -> "Asked":
        names = [host.name for host in self.hosts]
        if element.kind is ElementKind.HOST:
            hosts = [replace(h, factor=h.factor / 2) if h.name == element.src else h for h in self.hosts]
            return replace(self, hosts=tuple(hosts))
        pair = names.index(element.src), names.index(element.dst or "")
        return self.with_link(pair, rate_bps=2 * (self.links[pair].rate_bps or 0.0))

    def with_link(self, pair: tuple[int, int], **changes: float) -> "Asked":
        return replace(self, links={**self.links, pair: replace(self.links[pair], **changes)})  # type: ignore[arg-type]

    def run(self) -> virtual_world.Run:
        made = strategies.load(self.strategy)
        return virtual_world.run(
            lambda: made(**SETTINGS[self.strategy]), size=4, seed=self.seed, links=self.links, on_hosts=self.hosts,
            iterations=self.iterations,
        )  # fmt: skip

    def replay(self, *, assumed_s: float | None = None) -> Replay:
        trace = self.run().trace
        delays = {p: round((link.delay_s if assumed_s is None else assumed_s) * 1e9) for p, link in self.links.items()}
        return prepare(trace, join(trace), delays)


@pytest.mark.parametrize("seed", range(4))
@pytest.mark.parametrize("strategy", ORDERLY)
def test_no_saving_is_beyond_what_the_longest_path_loses(strategy: str, seed: int) -> None:
    replay, draw = Asked.drawn(strategy, seed).replay(), random.Random(seed)
    halved = [scaled(element, 0.5) for element in replay.elements]
    for whatif in [*halved, *(any_whatif(replay, draw) for _ in range(10))]:
        assert replay.measured_ns - replay.run_ns(whatif) <= replay.critical.most_saved_ns(whatif) + 1


@pytest.mark.parametrize("strategy", [*ORDERLY, "allreduce"])
def test_twice_as_fast_is_as_fast_as_a_run_that_is(strategy: str) -> None:
    errors = []
    for seed in range(3):
        asked = Asked.drawn(strategy, seed)
        replay, draw = asked.replay(), random.Random(seed)
        for element in draw.sample(replay.elements, 4):
            truth_ns = asked.twice_as_fast(element).run().result.end_ns
            errors.append(abs(replay.run_ns(scaled(element, 0.5)) - truth_ns) / truth_ns)
    assert np.median(errors) < 0.01
    assert max(errors) < 0.08  # messages of several tasks that change places on a link


@pytest.mark.parametrize("assumed_s", [0.02, 0.05, 1.0])
@pytest.mark.parametrize("seed", range(2))
def test_a_delay_that_was_not_there_is_not_saved(seed: int, assumed_s: float) -> None:
    asked = Asked.drawn("allreduce", seed)
    asked = replace(asked, links={pair: replace(link, delay_s=0.0) for pair, link in asked.links.items()})
    replay = asked.replay(assumed_s=assumed_s)
    pair = (0, 1)
    truth_ns = asked.with_link(pair, rate_bps=1e12).run().result.end_ns  # nothing is faster than no time at all
    gone = Change(
        element=Element(kind=ElementKind.LINK, src="edge-1", dst="edge-2"),
        scale=Piecewise.constant(0.0), less_s=Piecewise.constant(assumed_s),
    )  # fmt: skip
    assert replay.run_ns(WhatIf(changes=(gone,))) >= 0.95 * truth_ns


@pytest.mark.parametrize("strategy", [*ORDERLY, "allreduce"])
def test_a_steady_run_is_predicted_from_its_first_half_and_one_that_changed_is_not(strategy: str) -> None:
    asked = replace(Asked.drawn(strategy, 1), iterations=40)
    assert asked.replay().half_error(40, 2) < 0.03
    later = Schedule(points=((0.0, 1.0), (asked.run().end_s / 2, 4.0)))
    slow = [replace(host, slower={Phase.FORWARD: later, Phase.BACKWARD: later}) for host in asked.hosts]
    assert replace(asked, hosts=tuple(slow)).replay().half_error(40, 2) > 0.1


def test_a_short_run_is_not_predicted_from_its_half() -> None:
    assert math.isnan(Asked.drawn("allreduce", 1).replay().half_error(10, 2))
