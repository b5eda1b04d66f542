"""What each link does of a library's transfers: of all groups, in rings of any size, and what groups of links save."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import numpy as np
import pytest
from ddp import Ddp, name, restored, run_s, simulate
from hypothesis import given, settings
from hypothesis import strategies as st

from e2c_dl.diagnosis.flows import ObservedFlow, observed_flows
from e2c_dl.diagnosis.model import Element, ElementKind
from e2c_dl.diagnosis.replay.columns import NONE
from e2c_dl.diagnosis.replay.replay import Replay, prepare_library
from e2c_dl.diagnosis.replay.transfers import LINKS_A_RANK, Loads, loads
from e2c_dl.diagnosis.replay.whatif import WhatIf, scaled
from e2c_dl.trace.collectives import PART, WORLD, Collectives, collectives
from e2c_dl.trace.model import Collective, Trace

ITERATIONS = 4
RANKS = 40


def replayed(trace: Trace) -> Replay:
    return prepare_library(trace, collectives(trace), observed_flows(trace, ITERATIONS))


def faster(senders: Sequence[int], factor: float) -> WhatIf:
    """The links of a ring that leave ``senders``, each taking ``factor`` times as long."""
    links = (Element(kind=ElementKind.LINK, src=name(src), dst=name((src + 1) % RANKS)) for src in senders)
    return WhatIf.together(scaled(link, factor) for link in links)


def ring(**fields: Any) -> Ddp:
    return Ddp(ranks=RANKS, iterations=ITERATIONS, bucket_bytes=(2_000_000,), delay_s=1e-4, rate_bps=50e6, **fields)


def test_in_a_large_ring_only_all_links_together_make_it_faster() -> None:
    ddp = ring()
    trace = simulate(ddp)
    replay, every = replayed(trace), range(RANKS)
    saved_s = [(replay.replayed_ns - replay.run_ns(faster(some, 0.5))) / 1e9 for some in (every[:20], every[20:])]
    assert saved_s == pytest.approx([0, 0], abs=0.02 * run_s(trace))
    twice_s = run_s(simulate(replace(ddp, rate_bps=2 * ddp.rate_bps)))
    assert replay.run_ns(faster(every, 0.5)) / 1e9 == pytest.approx(twice_s, rel=0.05)


def test_restoring_a_large_layer_of_slow_links_predicts_the_run_without_it() -> None:
    layer = range(0, RANKS, 2)
    ddp = ring(slow_links=dict.fromkeys(layer, 0.25))
    trace = simulate(ddp)
    then_s = replayed(trace).run_ns(faster(layer, 0.25)) / 1e9
    assert then_s == pytest.approx(run_s(simulate(restored(ddp))), rel=0.05)
    assert then_s < 0.5 * run_s(trace)


def flow(src: int, dst: int, need_s: float, iterations: int = 1) -> ObservedFlow:
    each = np.ones(iterations)
    return ObservedFlow(
        ranks=(src, dst), pair=(name(src), name(dst)), acked_bytes=1e6 * each, busy_s=need_s * each,
        delivery_bps=np.nan * each, min_rtt_s=2e-4 * each, retransmissions=0 * each, segments=700 * each,
    )  # fmt: skip


def sums(*rows: tuple[int, int, Sequence[int], int]) -> Collectives:
    """All-reduces, each (group, iteration, ranks, bytes)."""
    parts = [
        (0, 0, 10**9, nbytes, number, iteration, group, rank, 0, Collective.ALL_REDUCE)
        for number, (group, iteration, ranks, nbytes) in enumerate(rows)
        for rank in ranks
    ]
    found = np.array(parts, dtype=PART)
    found = found[np.lexsort((found["rank"], found["seq"], found["group"]))]
    new = np.append(True, (np.diff(found["seq"]) != 0) | (np.diff(found["group"]) != 0))
    return Collectives(parts=found, first=np.flatnonzero(new))


def rows(of: Loads, collective: int) -> dict[int, float]:
    """Link -> seconds that it carries its bytes of ``collective``."""
    own = of.collective == collective
    return dict(zip(of.link[own].tolist(), (of.alone_ns[own] / 1e9).tolist(), strict=True))


def test_a_link_of_two_groups_carries_what_each_sends_over_it() -> None:
    """The ring of four puts 1.5 MB on each of its links, that of two 1 MB."""
    of = sums((WORLD, 0, range(4), 10**6), (7, 0, (0, 1), 10**6))
    found = loads(of, [flow(0, 1, 0.25), flow(1, 2, 0.15), flow(2, 3, 0.15), flow(3, 0, 0.15)])
    assert rows(found, 0) == pytest.approx(dict.fromkeys(range(4), 0.15))
    assert rows(found, 1) == pytest.approx({0: 0.1})


@settings(deadline=None)
@given(
    made=st.lists(
        st.tuples(st.integers(0, 3), st.integers(0, 2), st.integers(1, 10**7)), min_size=1, max_size=12
    ),
    needs_s=st.lists(st.floats(0.001, 1.0), min_size=5, max_size=5),
)  # fmt: skip
def test_what_a_link_needs_in_an_iteration_is_what_all_groups_transfers_take_of_it(
    made: list[tuple[int, int, int]], needs_s: list[float]
) -> None:
    ranks = {0: (0, 1, 2, 3), 1: (0, 1), 2: (1, 2, 3), 3: (2, 3)}
    of = sums(*((group, iteration, ranks[group], nbytes) for group, iteration, nbytes in made))
    pairs = [(0, 1), (1, 0), (1, 2), (2, 3), (3, 0)]
    found = loads(of, [flow(*pair, need_s, 3) for pair, need_s in zip(pairs, needs_s, strict=True)])
    parts = of.parts[of.first[found.collective]]
    for link, need_s in enumerate(needs_s):
        for iteration in range(3):
            own = (found.link == link) & (parts["iteration"] == iteration)
            assert not own.any() or found.alone_ns[own].sum() == pytest.approx(need_s * 1e9)
            assert own.any() == any({*pairs[link]} <= {*ranks[g]} for g, i, _ in made if i == iteration)


def test_of_many_links_between_few_ranks_those_that_need_little_are_one() -> None:
    ranks = range(12)
    pairs = [(src, dst) for src in ranks for dst in ranks if src != dst]
    much = LINKS_A_RANK * len(ranks) + 2  # need alike: which of them were told apart would hang on their order
    needs_s = [1.0] * much + [0.01] * (len(pairs) - much)
    found = loads(sums((WORLD, 0, ranks, 10**6)), [flow(*p, s) for p, s in zip(pairs, needs_s, strict=True)])
    carried_s = rows(found, 0)
    assert carried_s == pytest.approx({**dict.fromkeys(range(much), 1.0), NONE: 0.01})
    way_ns = 1e5 * 2 * (len(ranks) - 1)
    assert (found.turn_ns + found.way_ns).sum() == pytest.approx(1e9 * sum(needs_s) / len(pairs) + way_ns)
    assert found.alone_ns[found.first].tolist() == pytest.approx([1e7])  # rising


def test_of_many_groups_each_link_is_looked_at_once(monkeypatch: pytest.MonkeyPatch) -> None:
    """Counted, as time would be of this machine: groups times links took seconds at 400 ranks in pairs."""
    pairs = [(rank, rank ^ 1) for rank in range(60)]
    of = sums(*((rank, 0, (rank, rank + 1), 10**6) for rank in range(0, 60, 2)))
    asked: list[tuple[int, int]] = []
    usual = ObservedFlow.is_usual.fget  # type: ignore[attr-defined]
    monkeypatch.setattr(ObservedFlow, "is_usual", property(lambda own: asked.append(own.ranks) or usual(own)))
    found = loads(of, [flow(*pair, 0.1) for pair in pairs])
    assert [*rows(found, 0).items(), *rows(found, 29).items()] == [
        (link, pytest.approx(0.1)) for link in (0, 1, 58, 59)
    ]
    assert len(asked) <= 2 * len(pairs)
