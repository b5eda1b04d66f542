"""The bar of the simulated comparison: where it is missed, and what the traces say there.

compute: DLion 24.7 s, Ako 14.5 s. DLion's ranks compute 78% - 85% of the time, Ako's 98% - 100%, ...
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import dataclass

from benchmarks.systems import environments, table
from benchmarks.systems.tables import Results, seconds
from benchmarks.systems.trial import Ran

OWN = "DLion"
OTHERS = ("Ako", "Gaia", "Hop")
TIMES = 2.0
SAID = (
    "DLion 2 times as fast as full exchange where compute is unlike, and no slower than it, Ako, Gaia and Hop in any "
    "of its environments"
)


@dataclass(frozen=True, kw_only=True)
class Shortfall:
    """Where the bar is missed; a time is None where nobody tried, infinite where the target was not reached."""

    environment: environments.Environment
    other: str
    times: float  # as fast as ``other`` that DLion should be
    own_s: float | None
    other_s: float | None

    @property
    def tried(self) -> bool:
        return self.own_s is not None and self.other_s is not None

    def __str__(self) -> str:
        if not self.tried:
            return f"{self.environment.name}: {OWN} and {self.other} were not both tried"
        return f"{self.environment.name}: {OWN} {seconds(self.own_s)} s, {self.other} {seconds(self.other_s)} s"


def missed(results: Results) -> list[str]:
    """What of the bar does not hold, a sentence each."""
    if not any(results.median_s(OWN, each.name) for each in environments.DLION):
        return [f"{OWN} was not tried in its environments"]
    return [str(each) for each in _shortfalls(results)]


def traced(results: Results) -> str:
    """Where the bar is missed, with what traces say of both systems; empty, if it holds or was not tried."""
    lines = [f"* {each}. {_evidence(results, each)}" for each in _shortfalls(results) if each.tried]
    head = "Traces are of the first seed; a limit follows from the environment alone."
    return "\n".join([head, "", *lines]) if lines else ""


def most_by_batches(environment: environments.Environment) -> float:
    """How many times shorter batches by speed can make what ranks compute in an iteration, at most."""
    factors = [environment.factor(layer) for layer in environment.layers()]
    return max(factors) * sum(1 / each for each in factors) / len(factors)


def _shortfalls(results: Results) -> Iterator[Shortfall]:
    for environment in environments.DLION:
        full_exchange = table.FULL_EXCHANGE, TIMES if environment.factors else 1.0
        own = results.median_s(OWN, environment.name)
        for name, times in (full_exchange, *((each, 1.0) for each in OTHERS)):
            other = results.median_s(name, environment.name)
            if own is None or other is None or math.isinf(own) or own * times > other:
                yield Shortfall(environment=environment, other=name, times=times, own_s=own, other_s=other)


def _evidence(results: Results, of: Shortfall) -> str:
    own, other = (results.of(name, of.environment.name)[0] for name in (OWN, of.other))
    said = f"{OWN}'s ranks {_spent(own)}; {of.other}'s {_spent(other)}."
    if of.times == 1:
        return said
    most = (
        f"Batches by speed make what ranks compute in an iteration {most_by_batches(of.environment):.2g} times shorter"
    )
    return f"{said} {most} at most, and what is not computing stays."


def _spent(one: Ran) -> str:
    computing = f"compute {min(one.computing):.0%} - {max(one.computing):.0%} of the time"
    stale = "" if not one.staleness else f", and apply gradients {one.staleness:.2g} updates late in the mean"
    return f"{computing}, in {min(one.iterations)} - {max(one.iterations)} iterations{stale}"
