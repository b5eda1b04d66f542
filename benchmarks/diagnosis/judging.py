"""A Report beside the truth: who was named, whether that is exactly who was material, and as what.

*Exactly right*: the material injections are named, each by its element (a line as that line, a layer by all of its
members or as a group) and its part (compute, data, step; rate, delay, loss), and nobody else is: no immaterial one, no
element that nothing was done to. Who is named as two parts for lack of evidence is right if one of them is it.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import asdict, dataclass, field, replace
from typing import Any

from benchmarks.diagnosis.drawn import Drawn
from benchmarks.diagnosis.injections import What
from benchmarks.diagnosis.truth import Cost, Truth
from e2c_dl.diagnosis.model import Finding, Part, Report
from e2c_dl.diagnosis.stretches import When as Recurring

MATERIAL, CLEAN, EDGE, VOID = "material", "clean", "edge", "void"
_OF_PART = {
    Part.COMPUTE: frozenset({What.COMPUTE}),
    Part.DATA: frozenset({What.DATA}),
    Part.STEP: frozenset({What.STEP}),
    Part.RATE: frozenset({What.RATE}),
    Part.DELAY: frozenset({What.DELAY}),
    Part.RATE_OR_DELAY: frozenset({What.RATE, What.DELAY}),
    Part.RATE_DELAY_OR_LOSS: frozenset({What.RATE, What.DELAY, What.LOSS}),
    Part.LOSS: frozenset({What.LOSS}),
}


@dataclass(frozen=True, kw_only=True)
class Culprit:
    """One injection and what became of it; plain values."""

    what: str
    when: str
    factor: float
    said: str  # in words
    names: tuple[str, ...]
    layer: bool
    speedup: float  # true
    material: bool
    edge: bool
    named: bool  # all of it, as an element
    part_right: bool
    onset: int | None  # iteration; None: persistent
    onset_found: int | None
    predicted_error: float | None  # |time predicted without it - time when run again| / run time; None: none predicted


@dataclass(frozen=True, kw_only=True)
class Outcome:
    """One run of the campaign, judged."""

    seed: int
    number: int
    strategy: str
    hosts: int
    run_s: float  # of virtual or real training
    kind: str  # MATERIAL, CLEAN, EDGE: all that could matter is too near the bar; or VOID: it was not simulated
    right: bool
    culprits: tuple[Culprit, ...]
    named: tuple[str, ...]
    falsely: tuple[str, ...]  # named, and not material
    rules: Mapping[str, tuple[str, ...]] = field(default_factory=dict)  # another's rule -> the hosts that it names
    laps: int = 1  # runs by different seeds, of which what an injection costs is the mean
    spread: float = 0.0  # of their times, as part of the mean
    seconds: float = 0.0  # that simulating and judging it took
    failed: str = ""  # what the analysis raised, if it did

    @property
    def material(self) -> tuple[Culprit, ...]:
        return tuple(one for one in self.culprits if one.material and not one.edge)

    def plain(self) -> dict[str, Any]:
        return asdict(self)


def judged(drawn: Drawn, truth: Truth, report: Report, rules: Mapping[str, tuple[str, ...]], seconds: float) -> Outcome:
    """What ``report`` says of ``drawn`` beside ``truth``."""
    named = frozenset(name for finding in report.culprits for name in names_of(finding))
    culprits = tuple(_culprit(cost, report) for cost in truth.costs)
    allowed = {name for cost in truth.costs if cost.material or cost.edge for name in cost.injection.names}
    falsely = named - allowed
    right = not falsely and all(one.named and one.part_right for one in culprits if one.material and not one.edge)
    training = drawn.system.scenario.training
    return Outcome(
        seed=drawn.seed, number=drawn.number, strategy=training.strategy, hosts=len(drawn.system.hardware),
        run_s=truth.run_s, kind=kind_of(culprits), right=right, culprits=culprits, named=tuple(sorted(named)),
        falsely=tuple(sorted(falsely)), rules=dict(rules), seconds=seconds,
        laps=truth.laps, spread=truth.spread,
    )  # fmt: skip


def kind_of(culprits: Iterable[Culprit]) -> str:
    """Whether a run counts among the material, the clean, or neither."""
    counted = [one for one in culprits if one.material or one.edge]
    if any(one.material and not one.edge for one in counted):
        return MATERIAL
    return EDGE if counted else CLEAN


def failed(drawn: Drawn, why: str, seconds: float, culprits: tuple[Culprit, ...] = ()) -> Outcome:
    """A run whose analysis raised ``why``: wrong, whatever it was."""
    training = drawn.system.scenario.training
    return Outcome(
        seed=drawn.seed, number=drawn.number, strategy=training.strategy, hosts=len(drawn.system.hardware), run_s=0.0,
        kind=MATERIAL if any(drawn.tries) else CLEAN, right=False, culprits=culprits, named=(), falsely=(),
        seconds=seconds, failed=why,
    )  # fmt: skip


def void(drawn: Drawn, why: str) -> Outcome:
    """A run whose simulation raised ``why``: there is no trace to diagnose, and no truth."""
    return replace(failed(drawn, why, 0.0), kind=VOID)


def names_of(finding: Finding) -> tuple[str, ...]:
    """The elements that ``finding`` names: its own, or the members of its group."""
    members: Sequence[Any] = getattr(finding, "members", ())
    return tuple(str(member) for member in members) or (str(finding.element),)


def parts_of(finding: Finding) -> frozenset[What]:
    """The parts that ``finding`` names: several where it says that no evidence separates them."""
    return _OF_PART.get(finding.part, frozenset())


def _culprit(cost: Cost, report: Report) -> Culprit:
    injection = cost.injection
    own = _findings(cost, report)
    foremost = {name: finding for finding in reversed(own) for name in names_of(finding)}  # the most saving of each
    named = set(cost.names) <= {name for finding in own if finding.material for name in names_of(finding)}
    onsets = [finding.when.onset_iteration for finding in own if finding.when.when is not Recurring.PERSISTENT]
    means_s = cost.with_s, cost.without_s
    with_s, without_s = means_s if report.chance is not None else cost.own_s or means_s
    predicted_s = _predicted_s(cost, own, with_s)
    return Culprit(
        what=injection.what.value, when=injection.when.value, factor=injection.factor, said=str(injection),
        names=cost.names, layer=injection.layer is not None, speedup=cost.speedup, material=cost.material,
        edge=cost.edge, named=named,
        part_right=named and all(injection.what in parts_of(foremost[name]) for name in cost.names),
        onset=cost.onset_iteration, onset_found=next(iter(onsets), None),
        predicted_error=None if predicted_s is None else abs(predicted_s - without_s) / with_s,
    )  # fmt: skip


def _findings(cost: Cost, report: Report) -> list[Finding]:
    return [finding for finding in report.findings if set(names_of(finding)) & set(cost.names)]


def _predicted_s(cost: Cost, own: Sequence[Finding], with_s: float) -> float | None:
    """How long the run is said to take with all of the injection restored, and nothing else; None: no one finding says.

    A report that knows of no chance tells of this run by its own luck, and is held against that seed alone: what a
    segment cost that this run lost, the mean over others does not.

    Where it says that chance decides, both are means over laps, by seeds that nobody shares. How far two means of
    savings are apart would tell of the laps: where one lap in ten takes four times as long as the others, as Prague's
    did, 30 laps tell the mean as it was to a fifth. So the times that the change leads to are compared.
    """
    whole = [finding for finding in own if set(cost.names) <= set(names_of(finding)) <= set(cost.injection.names)]
    if not whole:
        return None
    saved_s, speedup = whole[0].saved_s, whole[0].speedup
    return saved_s / (speedup - 1) if speedup != 1 else with_s
