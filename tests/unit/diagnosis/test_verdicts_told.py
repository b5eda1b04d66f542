"""Verdicts while training goes on: named soon, forgotten when well again, and of nothing that has not happened yet."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import msgspec
import pytest
from routed_run import EXPERIMENTS, LINK, SLOW_S, SLOWER, WELL_S, framed, judge_of, scenario, simulated

from e2c_dl.archive.verdicts import Told
from e2c_dl.drivers.virtual import hosts
from e2c_dl.scenario.load import load
from e2c_dl.trace.model import Phase, Spans


def until(spans: Spans, at_s: float, since_s: float = -1.0) -> Spans:
    found: Spans = spans[(spans["end_ns"] <= at_s * 1e9) & (spans["end_ns"] > since_s * 1e9)]
    return found


def began(traced: list[Spans]) -> int:
    """The iteration of the link's sender with which it became slow."""
    iterations = traced[0][traced[0]["phase"] == Phase.ITERATION]
    return int(iterations["iteration"][(iterations["start_ns"] >= SLOW_S * 1e9).argmax()])


@pytest.fixture(scope="module")
def archive(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("routing")


@pytest.fixture(scope="module")
def traced(archive: Path) -> list[Spans]:
    return simulated(scenario(), archive)


def told(archive: Path) -> list[Told]:
    lines = hosts.records(archive, scenario())[0].verdicts_file.read_bytes().splitlines()
    return [msgspec.json.decode(line, type=Told) for line in lines]


def test_a_slow_link_is_named_within_seconds_and_forgotten_when_it_is_well_again(
    archive: Path, traced: list[Spans]
) -> None:
    named = {each.at_s: {slow.ranks: slow for slow in each.slow} for each in told(archive)}
    assert not any(slow for at_s, slow in named.items() if at_s < SLOW_S)
    assert all(LINK in slow for at_s, slow in named.items() if SLOW_S + 4 <= at_s < WELL_S)
    assert named[max(named)] == {}
    found = named[min(at_s for at_s, slow in named.items() if slow)][LINK]
    assert abs(found.since - began(traced)) <= 2
    assert {ranks for slow in named.values() for ranks in slow} == {LINK}


def test_the_simulated_run_is_the_same_to_the_byte_again(archive: Path, traced: list[Spans], tmp_path: Path) -> None:
    again = simulated(scenario(), tmp_path)
    assert [each.tobytes() for each in again] == [each.tobytes() for each in traced]
    assert told(tmp_path) == told(archive)


def test_nothing_is_known_that_has_not_happened_yet(traced: list[Spans]) -> None:
    """A judge that is given the whole trace, but told how late it is, says what one says that has no more."""
    for at_s in (5.0, 8.0, 9.0, 11.0, 20.0):
        whole, part = judge_of(scenario()), judge_of(scenario())
        for rank, spans in enumerate(traced):
            whole.add(rank, framed(spans))
            part.add(rank, framed(until(spans, at_s)))
        assert whole.look(round(at_s * 1e9)) == part.look()


def test_a_link_that_is_left_alone_stays_named(traced: list[Spans]) -> None:
    judge = judge_of(scenario())
    for rank, spans in enumerate(traced):
        judge.add(rank, framed(until(spans, WELL_S - 1)))
    verdict = judge.look()
    assert verdict is not None
    assert verdict.factor(*LINK) == pytest.approx(SLOWER, rel=0.2)
    for rank, spans in enumerate(traced):  # from then on nobody uses it
        rest = spans[(spans["end_ns"] > (WELL_S - 1) * 1e9)]
        kept = ~(
            (rest["phase"] >= Phase.SEND) & (rest["phase"] <= Phase.RECEIVE) & (rest["src"] == 0) & (rest["dst"] == 1)
        )
        judge.add(rank, framed(rest[kept], number=len(until(spans, WELL_S - 1))))
    later = judge.look()
    assert later is not None
    assert later.factor(*LINK) == verdict.factor(*LINK)


def test_an_hour_later_a_verdict_is_as_soon(traced: list[Spans]) -> None:
    judge = judge_of(scenario())
    for rank, spans in enumerate(traced):
        early, late = until(spans, 1.5), until(spans, SLOW_S + 3, since_s=1.5).copy()
        for name in ("posted_ns", "start_ns", "end_ns"):
            late[name] += 3600 * 10**9
        judge.add(rank, framed(early))
        judge.add(rank, framed(late, number=len(early)))
    verdict = judge.look()
    assert verdict is not None
    assert verdict.factor(*LINK) == pytest.approx(SLOWER, rel=0.2)
    assert abs(verdict.slow[0].since - began(traced)) <= 2


def test_of_too_few_iterations_or_nothing_new_nothing_is_said(traced: list[Spans]) -> None:
    judge = judge_of(scenario())
    assert judge.look() is None
    for rank, spans in enumerate(traced):
        judge.add(rank, framed(until(spans, 1.5)))
    assert judge.look() is None
    for rank, spans in enumerate(traced):
        judge.add(rank, framed(until(spans, 5.0, since_s=1.5), number=len(until(spans, 1.5))))
    assert judge.look() is not None
    assert judge.look() is None


def test_where_ranks_go_in_step_hosts_and_links_are_named_too(tmp_path: Path) -> None:
    whole = load(EXPERIMENTS / "first-light")
    short = replace(whole, trained=replace(whole.training, iterations=20))
    judge = judge_of(short)
    for rank, spans in enumerate(simulated(short, tmp_path)):
        judge.add(rank, framed(spans))
    verdict = judge.look()
    assert verdict is not None
    assert {slow.ranks for slow in verdict.slow} == {(0, 1), (4,)}  # what the scenario injects
    assert verdict.factor(4) == pytest.approx(3.0, rel=0.1)
    assert verdict.factor(0, 1) == pytest.approx(1 / 0.3, rel=0.1)
