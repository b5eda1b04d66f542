"""Live runs of the campaign: what is drawn, and what stands in their scenarios."""

from __future__ import annotations

import random
from pathlib import Path

import pytest

from benchmarks.diagnosis.drawn import LAYER, ONE, TWO
from benchmarks.diagnosis.injections import Injection, What, When
from benchmarks.diagnosis.live_system import STRATEGIES, LiveSystem, drawn_injections, drawn_system
from e2c_dl.scenario.load import load
from e2c_dl.scenario.model import FaultKind
from e2c_dl.worlds.virtual import ComputeProfile, GradientTimes


def live_system() -> LiveSystem:
    times = GradientTimes(data_s=0.05, forward_s=0.1, backward_s=(0.1,))
    profile = ComputeProfile(
        model="cnn", dtype="float32", parameters=10, buckets=((0, 10),), gradients={16: times}, step_s=0.02
    )
    return LiveSystem(
        strategy="allreduce", settings={}, iterations=30, rate_mbit=20, delay_ms=5, profile=profile, seed=1
    )


@pytest.mark.parametrize("when", When)
def test_what_is_injected_live_stands_in_the_scenario(tmp_path: Path, when: When) -> None:
    slow = Injection(
        what=What.RATE, when=when, factor=2.0, amount=2.0, links=(("edge-1", "edge-2"),), begin=0.25, length=0.1,
        period=0.25,
    )  # fmt: skip
    scenario = load(live_system().write(tmp_path / "scenario", [slow], 10.0))
    assert scenario.training.mathematics == "shapes"
    assert scenario.topology.link("edge-1", "edge-2").rate_bps == 20e6, "the design does not tell"
    if when is When.PERSISTENT:
        assert scenario.injected.links == {("edge-1", "edge-2"): 0.5}
        return
    begins = [fault.at_s for fault in scenario.injected.faults]
    assert begins[:2] == {When.LAST_THIRD: [2.5], When.ONCE: [2.5], When.PERIODIC: [1.5, 4.0]}[when]
    assert {fault.for_s for fault in scenario.injected.faults} == {None if when is When.LAST_THIRD else 1.0}


@pytest.mark.parametrize(
    ("what", "amount", "kind", "value"),
    [(What.COMPUTE, 3.0, FaultKind.SLOW_HOST, 3.0), (What.DATA, 3.0, FaultKind.LATE_DATA, 0.1),
     (What.STEP, 5.0, FaultKind.LATE_STEP, 0.08), (What.RATE, 4.0, FaultKind.SLOW_LINK, 0.25),
     (What.DELAY, 0.06, FaultKind.LATE_LINK, 0.06), (What.LOSS, 0.02, FaultKind.LOSSY_LINK, 0.02)],
)  # fmt: skip
def test_every_part_of_whole_layers_can_be_injected_live(
    tmp_path: Path, what: What, amount: float, kind: FaultKind, value: float
) -> None:
    hosts, pairs = ("edge-1", "edge-2", "edge-3"), (("edge-1", "cloud-1"), ("edge-2", "cloud-1"))
    whom = {"hosts": hosts} if what.of_host else {"links": pairs}
    slow = Injection(what=what, when=When.LAST_THIRD, factor=3.0, amount=amount, begin=0.5, length=0.5, **whom)
    faults = load(live_system().write(tmp_path / "scenario", [slow], 10.0)).injected.faults
    met = [each for fault in faults for each in (fault.links or (fault.host,))]
    assert met == [*(hosts if what.of_host else pairs)]
    assert {(fault.kind, fault.at_s, fault.for_s) for fault in faults} == {(kind, 5.0, None)}
    assert [fault.value for fault in faults] == pytest.approx([value] * len(faults))


def test_live_runs_are_drawn_by_chance_alone_and_meet_all_that_there_is() -> None:
    seen: set[tuple[str, What, bool]] = set()
    for number in range(300):
        for wanted in (ONE, TWO, LAYER):
            drawn = []
            for _ in range(2):
                chance = random.Random(number)
                system = drawn_system(chance, lambda _: 0.3)
                drawn.append((system, drawn_injections(chance, system, wanted)))
            assert drawn[0] == drawn[1]
            system, injections = drawn[0]
            assert not injections or len(injections) == (2 if wanted == TWO else 1)
            assert all(each.layer is None or len(each.names) > 1 for each in injections)
            assert {pair for each in injections for pair in each.links} <= set(system.used_links)
            seen |= {(system.strategy, each.what, each.layer is not None) for each in injections}
    assert {what for _, what, layer in seen if not layer} == set(What)
    assert {what for _, what, layer in seen if layer} == {What.COMPUTE, What.RATE, What.DELAY}
    assert len({strategy for strategy, _, _ in seen}) == len(STRATEGIES)
