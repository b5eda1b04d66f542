"""One run some of whose links lose segments by design, one of them slowed or none, and what its report says of it."""

from __future__ import annotations

import random
import time
from collections.abc import Sequence
from dataclasses import dataclass, replace

from benchmarks.diagnosis.drawn import Drawn, amount_of, drawn
from benchmarks.diagnosis.injections import Injection, What, When
from benchmarks.diagnosis.judging import judged
from benchmarks.diagnosis.system import System
from benchmarks.diagnosis.truth import truth
from e2c_dl.diagnosis.analyse import analyse
from e2c_dl.topology import Pair

MOST_LOSING = 3  # links
LOSSES = (0.0005, 0.001, 0.003, 0.01)  # fractions of segments
WHATS = (None, None, What.RATE, What.DELAY, What.LOSS)
FACTORS = (2.0, 3.0, 5.0)
MOST_LOST = 0.1
STRETCHES = {When.PERSISTENT: (0.0, 1.0), When.LAST_THIRD: (2 / 3, 1 / 3)}


@dataclass(frozen=True, kw_only=True)
class Judged:
    """One run. ``verdict``: whether its report would have seen the link that was slowed; NAMED ones it has."""

    number: int
    strategy: str
    loss: float
    injected: str  # in words; empty: nothing was
    kind: str  # MATERIAL, CLEAN, or neither: too near the bar to tell
    speedup: float  # without what was injected
    named: bool
    part_right: bool
    verdict: bool
    falsely: tuple[str, ...]
    predicted_error: float | None
    seconds: float


def losing_run(seed: int, number: int) -> Judged | None:
    """Run ``number`` of ``seed``; None, if its system has no link of its own that could lose anything."""
    begun_s = time.perf_counter()
    chance = random.Random(f"losing/{seed}/{number}")
    system, loss = drawn(seed, number).system, chance.choice(LOSSES)
    shared = {pair for line in system.scenario.topology.bottlenecks for pair in line.links}
    own = [pair for pair in system.used_links if pair not in shared]
    if not own:
        return None
    losing = chance.sample(own, min(MOST_LOSING, len(own)))
    system = with_losses(system, losing, loss)
    injection = _injection(chance, system, losing)
    one = Drawn(seed=seed, number=number, system=system, tries=((injection,),) if injection else ())
    told = truth(one)
    report = analyse(told.trace, system.reference(told.trace), system.retraining(), speeding_up=False)
    outcome = judged(one, told, report, {}, 0.0)
    culprit = outcome.culprits[0] if outcome.culprits else None
    named = culprit is not None and culprit.named
    return Judged(
        number=number, strategy=outcome.strategy, loss=loss, injected="" if culprit is None else culprit.said,
        kind=outcome.kind, speedup=1.0 if culprit is None else culprit.speedup, named=named,
        part_right=culprit is not None and culprit.part_right,
        verdict=named or (culprit is not None and not {*culprit.names} & {*report.unjudged}),
        falsely=outcome.falsely, predicted_error=None if culprit is None else culprit.predicted_error,
        seconds=time.perf_counter() - begun_s,
    )  # fmt: skip


def with_losses(system: System, losing: Sequence[Pair], loss: float) -> System:
    """``system``, of which the links ``losing`` lose a fraction ``loss`` of their segments, and no others any."""
    topology = system.scenario.topology
    links = {pair: replace(link, loss=0.0) for pair, link in topology.links.items()}
    links |= {pair: replace(topology.link(*pair), loss=loss) for pair in losing}
    return replace(system, scenario=replace(system.scenario, topology=replace(topology, links=links)))


def _injection(chance: random.Random, system: System, losing: Sequence[Pair]) -> Injection | None:
    what, factor, when = chance.choice(WHATS), chance.choice(FACTORS), chance.choice([*STRETCHES])
    if what is None:
        return None
    pair = chance.choice(losing)
    link, (begin, length) = system.scenario.topology.link(*pair), STRETCHES[when]
    amount = amount_of(what, factor, link.delay_s)
    if what is What.LOSS:  # beside those by design: TCP's rate goes by the root
        amount = min(MOST_LOST, factor**2 * link.loss)
    return Injection(what=what, when=when, factor=factor, amount=amount, links=(pair,), begin=begin, length=length)
