"""Runs whose library hides its messages: whatever happens, their replay gives them back, and tells what helps."""

from __future__ import annotations

import numpy as np
import pytest
from ddp import COMPUTED, Ddp, name, restored, run_s, simulate
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from e2c_dl.diagnosis.flows import observed_flows
from e2c_dl.diagnosis.model import Element, ElementKind
from e2c_dl.diagnosis.piecewise import Piecewise
from e2c_dl.diagnosis.replay.replay import Replay, prepare_library
from e2c_dl.diagnosis.replay.whatif import Change, WhatIf, scaled
from e2c_dl.diagnosis.states import timelines
from e2c_dl.trace.collectives import collectives
from e2c_dl.trace.messages import join
from e2c_dl.trace.model import Phase, State, Trace

LIMITED = settings(max_examples=25, deadline=None, suppress_health_check=[HealthCheck.too_slow])

RUNS = st.builds(
    Ddp,
    ranks=st.integers(1, 5),
    iterations=st.integers(3, 8),
    bucket_bytes=st.lists(st.integers(1_000, 2_000_000), min_size=1, max_size=4).map(tuple),
    extra_s=st.dictionaries(st.tuples(st.integers(0, 4), st.sampled_from(COMPUTED)), st.floats(0.001, 0.5), max_size=2),
    slow_links=st.dictionaries(st.integers(0, 4), st.floats(0.1, 1.0), max_size=2),
    noise=st.floats(0.0, 0.5),
    sees_ends=st.booleans(),
    counts=st.booleans(),
    clock_error_ns=st.sampled_from([0, 50_000, 5_000_000]),
    seed=st.integers(0, 1000),
)


def replayed(trace: Trace, iterations: int) -> Replay:
    return prepare_library(trace, collectives(trace), observed_flows(trace, iterations))


@LIMITED
@given(ddp=RUNS)
def test_the_unmodified_replay_gives_the_run_back(ddp: Ddp) -> None:
    trace = simulate(ddp)
    replay = replayed(trace, ddp.iterations)
    assert replay.replayed_ns == pytest.approx(replay.measured_ns, rel=1e-9)
    assert replay.uncaused == 0


@LIMITED
@given(ddp=RUNS)
def test_states_partition_the_wall_time(ddp: Ddp) -> None:
    trace = simulate(ddp)
    for rank, states in zip(trace.ranks, timelines(trace, join(trace)), strict=True):
        training = rank.spans[rank.spans["phase"] == Phase.TRAINING]
        assert sum(states.totals_ns().values()) == int(training["end_ns"][0] - training["start_ns"][0])
        assert states.totals_ns()[State.COMPUTE] > 0


@LIMITED
@given(ddp=RUNS, rank=st.integers(0, 4), faster=st.floats(0.05, 1.0))
def test_what_is_faster_never_makes_the_run_longer(ddp: Ddp, rank: int, faster: float) -> None:
    replay = replayed(simulate(ddp), ddp.iterations)
    for element in replay.elements:
        run_ns = replay.run_ns(scaled(element, faster))
        assert run_ns <= replay.replayed_ns + 1000
        assert replay.replayed_ns - run_ns <= replay.most_saved_ns(scaled(element, faster)) + 1000


@LIMITED
@given(
    rank=st.integers(0, 3), phase=st.sampled_from([Phase.DATA, Phase.FORWARD, Phase.STEP]),
    extra_s=st.floats(0.05, 0.4), seed=st.integers(0, 99), sees_ends=st.booleans(),
)  # fmt: skip
def test_restoring_a_slow_phase_predicts_the_run_without_it(
    rank: int, phase: Phase, extra_s: float, seed: int, sees_ends: bool
) -> None:
    ddp = Ddp(extra_s={(rank, phase): extra_s}, noise=0.1, seed=seed, sees_ends=sees_ends)
    host = Element(kind=ElementKind.HOST, src=name(rank))
    usual_s = ddp.seconds[phase]
    scale = Piecewise.constant(usual_s / (usual_s + extra_s))
    change = WhatIf(changes=(Change(element=host, phases=frozenset({phase}), scale=scale),))
    predicted_s = replayed(simulate(ddp), ddp.iterations).run_ns(change) / 1e9
    assert predicted_s == pytest.approx(run_s(simulate(restored(ddp))), rel=0.05)


@LIMITED
@given(src=st.integers(0, 3), fraction=st.floats(0.2, 0.7), sees_ends=st.booleans())
def test_restoring_a_slow_link_predicts_the_run_within_a_tenth_of_it(
    src: int, fraction: float, sees_ends: bool
) -> None:
    ddp = Ddp(slow_links={src: fraction}, sees_ends=sees_ends)
    trace = simulate(ddp)
    link = Element(kind=ElementKind.LINK, src=name(src), dst=name((src + 1) % ddp.ranks))
    predicted_s = replayed(trace, ddp.iterations).run_ns(scaled(link, fraction)) / 1e9
    assert predicted_s == pytest.approx(run_s(simulate(restored(ddp))), abs=0.1 * run_s(trace))


@LIMITED
@given(ddp=RUNS, lost=st.integers(0, 200))
def test_spans_that_are_missing_never_stop_a_replay(ddp: Ddp, lost: int) -> None:
    trace = simulate(ddp)
    spans = trace.ranks[0].spans
    chosen = np.random.default_rng(lost).random(len(spans)) > 0.2
    kept = spans[chosen | np.isin(spans["phase"], [Phase.TRAINING, Phase.ITERATION])]
    object.__setattr__(trace.ranks[0], "spans", kept)
    replay = replayed(trace, ddp.iterations)
    assert replay.replayed_ns == pytest.approx(replay.measured_ns, rel=1e-6)
