"""The campaign with ground truth: what is drawn, what it costs, and how a report is judged beside it."""

from __future__ import annotations

import random
import re
from dataclasses import replace
from itertools import count
from pathlib import Path

import numpy as np
import pytest

from benchmarks.diagnosis import bars, campaign, live
from benchmarks.diagnosis.campaign import Judged
from benchmarks.diagnosis.drawn import Drawn, drawn
from benchmarks.diagnosis.draws import ITERATIONS, MOST_MESSAGES, PEERS, SHORT, Balance, drawn_system
from benchmarks.diagnosis.injections import Injection, What, When
from benchmarks.diagnosis.judging import CLEAN, EDGE, MATERIAL, Culprit, Outcome, judged, kind_of
from benchmarks.diagnosis.rules import RULES, PerIteration
from benchmarks.diagnosis.sending import STRATEGIES, messages
from benchmarks.diagnosis.table import text
from benchmarks.diagnosis.truth import Cost, Truth, tellable, truth
from e2c_dl.diagnosis.analyse import analyse
from e2c_dl.diagnosis.model import Element, ElementKind, Finding, Part, Report
from e2c_dl.diagnosis.stretches import throughout
from e2c_dl.trace.model import Phase

README = Path(bars.__file__).parent / "README.md"


def smallest(seed: int = 2) -> Drawn:
    """The first run of few hosts in which somebody is to blame."""
    for number in range(60):
        one = drawn(seed, number)
        if len(one.system.profiles) <= 6 and one.tries[0]:
            return one
    raise AssertionError("no small run in sixty")


def culprit(**changed: object) -> Culprit:
    plain = Culprit(
        what="rate", when="once", factor=2.0, said="", names=("a -> b",), layer=False, speedup=1.2, material=True,
        edge=False, named=True, part_right=True, onset=10, onset_found=12, predicted_error=0.02,
    )  # fmt: skip
    return replace(plain, **changed)  # type: ignore[arg-type]


def outcome(
    *culprits: Culprit, right: bool = True, named: tuple[str, ...] = (), strategy: str = "allreduce"
) -> Outcome:
    return Outcome(
        seed=1, number=0, strategy=strategy, hosts=4, run_s=10.0, kind=kind_of(culprits), right=right,
        culprits=culprits, named=named, falsely=(),
    )  # fmt: skip


def test_what_was_judged_is_not_run_again(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    file, ran = tmp_path / "judged.jsonl", []

    def judged_now(seed: int, number: int, kept: Path | None) -> Outcome:
        ran.append(number)
        if kept is not None:
            kept.mkdir(parents=True)
        found = replace(outcome(culprit(), named=("a -> b",)), seed=seed, number=number, rules={"S_w": ("a",)})
        return replace(found, right=number != 1)

    monkeypatch.setattr(live, "judged_run", judged_now)
    first = list(live.campaign(4, 2, Judged(file)))
    with file.open("a") as torn:
        torn.write('{"code": "12')
    assert list(live.campaign(4, 3, Judged(file)))[:2] == first
    assert ran == [0, 1, 2]
    assert len(list(live.campaign(6, 1, Judged(file)))) == 1  # another seed
    assert ran == [0, 1, 2, 0]
    assert Judged(file).of(4, 1) == first[1]
    list(live.campaign(8, 3, Judged(file), tmp_path / "wrong"))
    assert [each.name for each in (tmp_path / "wrong").iterdir()] == ["8-1"]
    monkeypatch.setattr(campaign.rooms, "hashes", lambda names: dict.fromkeys(names, "another"))
    assert Judged(file).of(4, 1) is None


def test_the_same_number_draws_the_same_run_and_others_another() -> None:
    assert drawn(2, 3) == drawn(2, 3)
    assert drawn(2, 3).system != drawn(4, 3).system


@pytest.mark.parametrize("number", range(12))
def test_what_is_drawn_can_be_diagnosed(number: int) -> None:
    one = drawn(2, number)
    scenario, hardware = one.system.scenario, one.system.hardware
    kinds = list(zip(hardware.values(), scenario.training.batch_sizes, strict=True))
    assert all(kinds.count(kind) >= PEERS for kind in kinds)
    for injection in (each for injections in one.tries for each in injections):
        known = {*scenario.topology.names, *(f"{src} -> {dst}" for src, dst in one.system.used_links)}
        assert set(injection.names) <= known | {each.name for each in scenario.topology.bottlenecks}
        if injection.when is When.PERSISTENT and injection.what.of_host:
            assert all(hardware[host] for host in injection.hosts), "nothing tells that it is slow"


def test_an_injection_slows_what_it_names_when_it_says() -> None:
    one = smallest()
    system, host = one.system, one.system.scenario.topology.names[0]
    clean = system.run()
    half_s = 1.0
    slow = Injection(
        what=What.STEP, when=When.ONCE, factor=5.0, amount=5.0, hosts=(host,), begin=0.5 * half_s, length=1.0
    )
    ran_s = float(clean.ranks[0].spans["end_ns"].max()) / 1e9
    spans, before = (
        each.ranks[0].spans[each.ranks[0].spans["phase"] == Phase.STEP] for each in (system.run([slow], ran_s), clean)
    )
    times = (spans["end_ns"] - spans["start_ns"]) / (before["end_ns"] - before["start_ns"])
    inside = spans["posted_ns"] / 1e9 >= 0.5 * ran_s
    assert inside.any() and not inside.all()
    assert times[~inside] == pytest.approx(1.0, rel=1e-6)
    assert times[inside & (spans["posted_ns"] / 1e9 < 1.5 * ran_s)] == pytest.approx(5.0, rel=1e-3)


def test_a_run_of_the_campaign_is_the_same_again_and_judged() -> None:
    one = smallest()
    told = truth(one)
    again = truth(one)
    assert all(np.array_equal(a.spans, b.spans) for a, b in zip(told.trace.ranks, again.trace.ranks, strict=True))
    report = analyse(told.trace, one.system.reference(told.trace))
    assert report.run_s == pytest.approx(told.run_s, rel=1e-6)
    judgement = judged(one, told, report, {}, 1.0)
    assert len(judgement.culprits) == len(told.costs)
    assert text([judgement], bars.bars([judgement])).count("\n## ") == 7


def finding(element: Element, **changed: object) -> Finding:
    plain = Finding(
        element=element, part=Part.COMPUTE, when=throughout(10.0), slowdown=2.0, observed=2.0, expected=1.0,
        saved_s=2.0, speedup=1.25, material=True, evidence="",
    )  # fmt: skip
    return replace(plain, **changed)  # type: ignore[arg-type]


@pytest.mark.parametrize(
    ("names", "right", "falsely"),
    [
        (("edge-2",), True, ()),
        ((), False, ()),
        (("edge-2", "edge-3"), False, ("edge-3",)),
        (("edge-3",), False, ("edge-3",)),
    ],
)
def test_exactly_right_is_all_of_them_and_nobody_else(
    names: tuple[str, ...], right: bool, falsely: tuple[str, ...]
) -> None:
    one = smallest()
    injection = Injection(what=What.COMPUTE, when=When.PERSISTENT, factor=2.0, amount=2.0, hosts=("edge-2",))
    cost = Cost(injection=injection, with_s=10.0, without_s=8.0, alone=1.25, jointly=1.25, onset_iteration=None)
    told = Truth(trace=one.system.run(), run_s=10.0, undisturbed_s=8.0, costs=(cost,))
    found = tuple(finding(Element(kind=ElementKind.HOST, src=name)) for name in names)
    empty = analyse(told.trace, one.system.reference(told.trace))
    report: Report = replace(empty, findings=found, culprits=found)
    judgement = judged(one, told, report, {}, 1.0)
    assert (judgement.right, judgement.falsely) == (right, falsely)
    if right:
        assert judgement.culprits[0].predicted_error == pytest.approx(0.0)


@pytest.mark.parametrize(
    ("speedup", "kind"), [(1.0, CLEAN), (1.03, CLEAN), (1.045, EDGE), (1.055, EDGE), (1.07, MATERIAL)]
)
def test_what_is_near_the_bar_counts_for_nothing(speedup: float, kind: str) -> None:
    injection = Injection(what=What.DATA, when=When.PERSISTENT, factor=2.0, amount=2.0, hosts=("edge-2",))
    cost = Cost(injection=injection, with_s=1.0, without_s=1.0, alone=speedup, jointly=1.0, onset_iteration=None)
    assert kind_of([culprit(speedup=speedup, material=cost.material, edge=cost.edge)]) == kind


@pytest.mark.parametrize(
    ("alone", "jointly", "moves", "edge"),
    [
        (1.07, 1.02, True, True),
        (1.07, 1.02, False, False),
        (1.02, 1.07, True, False),
        (1.2, 1.1, True, False),
        (1.07, 1.055, True, True),
        (1.055, 1.07, True, False),
    ],
)
def test_what_costs_only_by_the_iterations_that_another_strikes_counts_for_nothing(
    alone: float, jointly: float, moves: bool, edge: bool
) -> None:
    injection = Injection(what=What.DATA, when=When.ONCE, factor=2.0, amount=2.0, hosts=("edge-2",))
    cost = Cost(
        injection=injection, with_s=1.0, without_s=1.0, alone=alone, jointly=jointly, onset_iteration=3, moves=moves
    )
    assert cost.material
    assert cost.edge is edge
    itself = replace(cost, alone=jointly, jointly=alone, moves=False, moved=moves)  # it is what goes by time
    assert itself.edge is edge


@pytest.mark.parametrize(
    ("mean", "own", "error", "edge"),
    [(1.3, 1.2, 0.1, False), (1.3, 1.0, 0.1, True), (1.0, 1.2, 0.01, True), (1.0, 1.0, 0.01, False),
     (1.3, 1.2, 0.13, True), (1.0, 1.0, 0.03, True)],
)  # fmt: skip
def test_what_chance_decides_counts_where_the_run_itself_and_the_mean_are_clearly_on_one_side(
    mean: float, own: float, error: float, edge: bool
) -> None:
    injection = Injection(what=What.LOSS, when=When.PERSISTENT, factor=2.0, amount=0.01, links=(("a", "b"),))
    cost = Cost(
        injection=injection, with_s=1.0, without_s=1.0, alone=mean, jointly=1.0, own=own, error=error,
        onset_iteration=None,
    )  # fmt: skip
    assert cost.edge is edge


def test_bars_hold_and_are_missed() -> None:
    good = [outcome(culprit(factor=factor)) for factor in (1.2, 2.0)] + [outcome(culprit(), culprit()), outcome()]
    assert all(bar.held for bar in bars.bars(good))
    bad = [
        outcome(culprit(factor=1.2), right=False), outcome(culprit(onset_found=20), right=False),
        outcome(culprit(predicted_error=0.5), culprit(), right=False), outcome(named=("a",)),
    ]  # fmt: skip
    assert [bar.name for bar in bars.bars(bad) if bar.held] == ["prediction, allreduce, median"]
    assert not any(bar.held for bar in bars.bars([])), "nothing judged, nothing held"


def test_an_onset_is_found_within_three_iterations() -> None:
    assert bars.onset_right(culprit(onset=10, onset_found=13))
    assert not bars.onset_right(culprit(onset=10, onset_found=14))
    assert not bars.onset_right(culprit(onset=10, onset_found=None))


def test_no_other_rule_names_a_link() -> None:
    times = PerIteration(truth(smallest()).trace)
    for rule in RULES.values():
        assert set(rule(times)) <= set(times.hosts)


def test_few_runs_hold_no_bar() -> None:
    assert bars.missed([outcome()], []) == ["fewer runs than asked for"]
    assert bars.missed([outcome()] * bars.LEAST_LIVE, [], live=True) == []


def test_the_readme_shows_the_bars_of_the_code() -> None:
    shown = re.findall(r"\| at (?:least|most) (\d+) %", README.read_text(encoding="utf-8"))
    asked = (
        bars.RIGHT_LARGE, bars.RIGHT_SMALL, bars.RIGHT_BOTH, bars.RIGHT_ONSET, bars.FALSE_ALARMS, bars.ERROR_MEDIAN,
        bars.ERROR_90,
    )  # fmt: skip
    assert [int(each) / 100 for each in shown] == pytest.approx(asked)
    assert f"at least {bars.LEAST_RUNS} material and {bars.LEAST_RUNS} clean" in README.read_text(encoding="utf-8")
    assert f"at least {bars.LEAST_LIVE} runs" in README.read_text(encoding="utf-8")
    assert f"within {bars.ONSET_WITHIN} iterations" in README.read_text(encoding="utf-8")


def test_what_nobody_could_tell_is_injected_in_the_last_third_alone() -> None:
    one = smallest(8)  # all hosts step
    trace, hosts = one.system.run(), one.system.scenario.topology.names
    system = replace(one.system, hardware=dict.fromkeys(hosts, "board"))
    slow = Injection(what=What.STEP, when=When.PERSISTENT, factor=3.0, amount=3.0, hosts=(hosts[0],))
    assert tellable(system, trace, slow) == slow
    alone = replace(system, hardware={**system.hardware, hosts[0]: "the server's"})
    changed = tellable(alone, trace, slow)
    assert (changed.when, changed.hosts, changed.amount) == (When.LAST_THIRD, slow.hosts, slow.amount)
    assert changed.onset_s(30.0) == pytest.approx(20.0)


@pytest.mark.parametrize("name", STRATEGIES)
def test_no_strategy_sends_more_messages_than_it_is_drawn_for(name: str) -> None:
    number = next(each for each in count() if random.Random(f"law/{each}").choice(STRATEGIES) == name)
    system = drawn_system(random.Random(f"law/{number}"), Balance())
    training, (profile, *_) = system.scenario.training, system.profiles.values()
    few = replace(system, scenario=replace(system.scenario, trained=replace(training, iterations=SHORT))).run()
    sent = sum(int((rank.spans["phase"] == Phase.SEND).sum()) for rank in few.ranks) / SHORT
    least = messages(name, training.strategy_settings, len(few.ranks), len(profile.buckets))  # of the fewest hosts
    assert sent <= 1.5 * max(least, MOST_MESSAGES / ITERATIONS[0])
