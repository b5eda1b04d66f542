"""What departs is named with its part and its onset, for part of a run too; noise and jitter accuse nobody."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace

import numpy as np
import pytest
import virtual_world
from hypothesis import given, settings
from hypothesis import strategies as st

from e2c_dl.diagnosis.analyse import analyse
from e2c_dl.diagnosis.detection.levels import levelled
from e2c_dl.diagnosis.detection.series import Series
from e2c_dl.diagnosis.model import ElementKind, Finding, Part, Report
from e2c_dl.diagnosis.stretches import When
from e2c_dl.report.verdict import Tone, verdict_of
from e2c_dl.scenario.schedule import Schedule
from e2c_dl.strategies.allreduce import Allreduce
from e2c_dl.trace.model import Phase
from e2c_dl.worlds.virtual import GradientTimes, HostModel, LinkModel

SIZE = 4
LINK = LinkModel(rate_bps=50e6, delay_s=0.005)
PROFILE = virtual_world.profile((120_000, 60_000), per_sample_s=5e-3)
COMPUTE = (Phase.FORWARD, Phase.BACKWARD)
SLOW = (1, 2)
NAME = "edge-2 -> edge-3"


def hosts(noise: float = 0.05) -> tuple[HostModel, ...]:
    return virtual_world.hosts(SIZE, of=PROFILE, noise=noise)


def report(
    links: Mapping[tuple[int, int], LinkModel] | None = None, on_hosts: tuple[HostModel, ...] | None = None,
    iterations: int = 30, seed: int = 1,
) -> Report:  # fmt: skip
    """Of a run with ``links`` and ``on_hosts`` where LINK and hosts() were designed."""
    designed = virtual_world.everywhere(SIZE, LINK)
    run = virtual_world.run(
        Allreduce, size=SIZE, seed=seed, iterations=iterations, on_hosts=on_hosts or hosts(),
        links={**designed, **(links or {})},
    )  # fmt: skip
    return analyse(run.trace, replace(run, links=designed, hosts=hosts()).reference())


def during(slowed: float, *edges_s: float) -> Schedule:
    """1.0, and ``slowed`` from the first of ``edges_s`` to the second, from the third on, and so on."""
    values = [(at_s, slowed if place % 2 == 0 else 1.0) for place, at_s in enumerate(edges_s)]
    return Schedule(points=((0.0, 1.0), *values))


def changing(schedule: Schedule) -> LinkModel:
    """LINK at its rate over ``schedule``."""
    steps = [(at_s, replace(LINK, rate_bps=50e6 / slower)) for at_s, slower in schedule.steps(1000.0)]
    return replace(LINK, conditions=lambda: iter(steps))


def only(found: Report) -> Finding:
    (culprit,) = found.culprits
    return culprit


@pytest.mark.parametrize("seed", range(6))
@pytest.mark.parametrize("noise", [0.02, 0.15])
def test_noise_accuses_nobody(noise: float, seed: int) -> None:
    assert report(on_hosts=hosts(noise), seed=seed).findings == ()


@pytest.mark.parametrize("modelled", [True, False])
def test_of_a_single_iteration_noise_accuses_nobody_and_what_is_slow_by_far_is_named(modelled: bool) -> None:
    designed = virtual_world.everywhere(SIZE, LINK)
    named = []
    for seed in range(24):
        on_hosts = [*hosts(0.1)]
        if seed >= 12:
            on_hosts[2] = replace(on_hosts[2], factor=3.0)
        run = virtual_world.run(Allreduce, size=SIZE, seed=seed, iterations=1, links=designed, on_hosts=tuple(on_hosts))
        reference = replace(replace(run, hosts=hosts()).reference(), modelled=modelled)
        named.append([str(each.element) for each in analyse(run.trace, reference).findings])
    assert named == [[]] * 12 + [["edge-3"]] * 12


@pytest.mark.parametrize("jitter_s", [0.002, 0.005])
def test_jitter_that_was_designed_accuses_nobody(jitter_s: float) -> None:
    jittery = virtual_world.everywhere(SIZE, replace(LINK, jitter_s=jitter_s))
    run = virtual_world.run(Allreduce, size=SIZE, iterations=20, on_hosts=hosts(), links=jittery)
    assert analyse(run.trace, run.reference()).culprits == ()


@pytest.mark.parametrize("missing", range(SIZE))
@pytest.mark.parametrize("disturbed", [True, False])
def test_without_a_ranks_trace_nobody_is_named_who_is_as_designed(disturbed: bool, missing: int) -> None:
    designed = virtual_world.everywhere(SIZE, LINK)
    links = {**designed, SLOW: replace(LINK, rate_bps=50e6 / 3)} if disturbed else designed
    built = [replace(host, factor=2.0 if disturbed and rank == 0 else 1.0) for rank, host in enumerate(hosts())]
    run = virtual_world.run(Allreduce, size=SIZE, iterations=20, on_hosts=tuple(built), links=links)
    left = tuple(rank for rank in run.trace.ranks if rank.rank != missing)
    found = analyse(replace(run.trace, ranks=left), replace(run, links=designed, hosts=hosts()).reference())
    assert {str(element) for element in found.blamed} <= ({NAME, "edge-1"} if disturbed else set())
    assert found.untraced == (f"edge-{missing + 1}",)
    said = verdict_of(found)
    assert said.tone is (Tone.CULPRITS if found.culprits else Tone.UNDECIDED)


@pytest.mark.parametrize("slower", [1.3, 2.0, 10.0])
def test_a_slow_link_is_named_for_what_it_is_slower(slower: float) -> None:
    culprit = only(report({SLOW: replace(LINK, rate_bps=50e6 / slower)}))
    assert (str(culprit.element), culprit.part, culprit.when.when) == (NAME, Part.RATE, When.PERSISTENT)
    assert culprit.slowdown == pytest.approx(slower, rel=0.03)


def test_added_delay_is_told_from_a_lower_rate() -> None:
    culprit = only(report({SLOW: replace(LINK, delay_s=0.065)}))
    assert (str(culprit.element), culprit.part) == (NAME, Part.DELAY)
    assert " 60.0 ms later" in culprit.evidence or " 59.9 " in culprit.evidence


@settings(max_examples=8, deadline=None)
@given(slower=st.floats(2.0, 10.0), onset_s=st.floats(1.0, 3.5))
def test_a_link_that_gets_slow_is_named_with_its_onset(slower: float, onset_s: float) -> None:
    found = report({SLOW: changing(during(slower, onset_s))})
    culprit = only(found)
    assert (str(culprit.element), culprit.part, culprit.when.when) == (NAME, Part.RATE, When.SINCE)
    assert culprit.when.onset_s == pytest.approx(onset_s, abs=2 * 0.2)
    assert found.run_s - culprit.saved_s == pytest.approx(report().run_s, rel=0.05)


def test_a_host_that_is_slow_from_a_moment_on_is_named_with_its_onset() -> None:
    slow = {phase: during(5.0, 3.0) for phase in COMPUTE}
    built = tuple(replace(host, slower=slow) if rank == 2 else host for rank, host in enumerate(hosts()))
    found = report(on_hosts=built)
    culprit = only(found)
    assert (str(culprit.element), culprit.part, culprit.when.when) == ("edge-3", Part.COMPUTE, When.SINCE)
    assert culprit.when.onset_s == pytest.approx(3.0, abs=0.25)
    assert found.run_s - culprit.saved_s == pytest.approx(report().run_s, rel=0.05)


def test_once_and_again_and_again_are_told_apart() -> None:
    def when(*edges_s: float) -> Finding:
        slow = {phase: during(6.0, *edges_s) for phase in COMPUTE}
        built = tuple(replace(host, slower=slow) if rank == 2 else host for rank, host in enumerate(hosts()))
        return only(report(on_hosts=built, iterations=40))

    once = when(2.0, 4.0)
    assert once.when.when is When.ONCE
    assert once.when.length_s == pytest.approx(2.0, abs=0.8)
    often = when(2.0, 3.0, 5.0, 6.0, 8.0, 9.0, 11.0, 12.0)
    assert often.when.when is When.PERIODIC
    assert often.when.period_s == pytest.approx(3.0, abs=0.3)


@pytest.mark.parametrize("slow", [(1, 2), (1, 2, 3)])
def test_where_most_are_slow_they_are_named_all_the_same(slow: tuple[int, ...]) -> None:
    factors = [2.0 if rank in slow else 1.0 for rank in range(SIZE)]
    built = tuple(replace(host, factor=factor) for host, factor in zip(hosts(), factors, strict=True))
    found = report(on_hosts=built)
    assert {each.src for each in found.blamed} == {f"edge-{rank + 1}" for rank in slow}
    few = "of which it is not known whether they are the normal ones"
    assert all((few in culprit.evidence) == (len(slow) == 3) for culprit in found.culprits)


@pytest.mark.parametrize(("part", "phase"), [(Part.DATA, "data_s"), (Part.STEP, "step_s")])
def test_a_slow_loader_or_step_is_named_as_that(part: Part, phase: str) -> None:
    profile = replace(PROFILE, step_s=0.1) if part is Part.STEP else replace(
        PROFILE,
        gradients={
            samples: GradientTimes(data_s=0.1, forward_s=each.forward_s, backward_s=each.backward_s)
            for samples, each in PROFILE.gradients.items()
        },
    )  # fmt: skip
    built = tuple(replace(host, profile=profile) if rank == 2 else host for rank, host in enumerate(hosts()))
    found = report(on_hosts=built, iterations=15)
    assert (str(only(found).element), only(found).part) == ("edge-3", part), phase


@pytest.mark.parametrize("paced", [True, False])
def test_a_designed_factor_excuses_no_step_where_gradients_are_paced(paced: bool) -> None:
    """A quota of 1 / 1.7 of a processor would make its steps that much slower, too: then nobody can tell."""
    built = [
        replace(host, profile=replace(PROFILE, step_s=0.15 if rank == 2 else 0.1), factor=1.7 if rank == 2 else 1.0)
        for rank, host in enumerate(hosts())
    ]
    run = virtual_world.run(
        Allreduce, size=SIZE, iterations=15, on_hosts=tuple(built), links=virtual_world.everywhere(SIZE, LINK)
    )
    found = analyse(run.trace, replace(run.reference(), paced=paced))
    assert [(str(each.element), each.part) for each in found.culprits] == ([("edge-3", Part.STEP)] if paced else [])


def test_messages_that_are_small_each_tell_a_rate_together() -> None:
    small = virtual_world.profile((2000, 1000))
    link = replace(LINK, rate_bps=5e6, delay_s=0.001)
    designed = virtual_world.everywhere(SIZE, link)
    on_hosts = virtual_world.hosts(SIZE, of=small, noise=0.05)
    built = {**designed, SLOW: replace(link, rate_bps=1e6)}
    run = virtual_world.run(Allreduce, size=SIZE, iterations=20, on_hosts=on_hosts, links=built)
    assert run.spans(1, Phase.SEND)["nbytes"].max() < 8192
    culprit = only(analyse(run.trace, replace(run, links=designed).reference()))
    assert str(culprit.element) == NAME
    assert culprit.slowdown == pytest.approx(5.0, rel=0.1)


def test_a_layer_that_is_slow_as_a_whole_is_one_culprit() -> None:
    layers = ["edge"] * 3 + ["cloud"] * 3
    designed = virtual_world.everywhere(6, LINK)
    plain = virtual_world.hosts(6, of=PROFILE, noise=0.05, layers=layers)
    built = tuple(replace(host, factor=2.0) if host.layer == "edge" else host for host in plain)
    run = virtual_world.run(Allreduce, size=6, iterations=15, on_hosts=built, links=designed)
    found = analyse(run.trace, replace(run, hosts=plain).reference())
    culprit = only(found)
    assert (culprit.element.kind, str(culprit.element)) == (ElementKind.GROUP, "3 hosts of edge")
    assert {each.src for each in culprit.members} == {"edge-1", "edge-2", "edge-3"}


def test_silence_says_what_it_would_not_have_seen() -> None:
    quiet, noisy = report(on_hosts=hosts(0.01)), report(on_hosts=hosts(0.3))
    assert 1.0 < quiet.least_visible[ElementKind.HOST] < noisy.least_visible[ElementKind.HOST]
    assert quiet.least_visible[ElementKind.LINK] < 1.3


@settings(max_examples=30, deadline=None)
@given(shift=st.floats(-20.0, 20.0), seed=st.integers(0, 10**6))
def test_who_departs_does_not_hang_on_the_unit_of_time(shift: float, seed: int) -> None:
    """Times that are all ``exp(shift)`` as long: the same windows depart by as much."""
    draw = np.random.default_rng(seed)
    values = draw.normal(0.0, 0.05, 40) + np.where(np.arange(40) >= draw.integers(5, 35), 0.5, 0.0)

    def judged(by: float) -> tuple[list[bool], float]:
        series = Series(
            values=values + by, iterations=np.arange(40), begins_s=np.arange(40.0), until_s=40.0,
            spent_s=np.exp(values + by),
        )  # fmt: skip
        (one,) = levelled([series])
        verdict = one.judged(by)
        return verdict.windows.tolist(), verdict.slowdown

    windows, slowdown = judged(shift)
    assert windows == judged(0.0)[0]
    assert slowdown == pytest.approx(judged(0.0)[1])
