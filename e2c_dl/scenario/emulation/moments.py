"""When a fault begins, and how often: a time of training or an iteration, given or drawn.

::

    at: 20s    at: iteration 30    at: {between: [10s, 60s]}    at: {between: [iteration 10, iteration 50]}
    repeat: {every: 20s, until: 120s}
"""

from __future__ import annotations

import math
import random
import re
from dataclasses import dataclass

from e2c_dl import units
from e2c_dl.scenario.field import Field, Findings, described

MAX_TIMES = 1000
"""How often one entry may be expected to happen."""

_ITERATION = re.compile(r"\s*iteration\s+([0-9]{1,9})\s*")


@dataclass(frozen=True, kw_only=True)
class Moment:
    """From ``low`` to ``high``, in seconds of training or in iterations; both are one if nothing is to be drawn."""

    low: float
    high: float
    iteration: bool

    def drawn(self, rng: random.Random) -> tuple[float | None, int | None]:
        """(at_s, None) or (None, at_iteration). Draws once, if there is a choice."""
        value = self.low if self.low == self.high else self._between(rng.random())
        return (None, int(value)) if self.iteration else (value, None)

    def _between(self, number: float) -> float:
        return self.low + number * (self.high - self.low + (1 if self.iteration else 0))


@dataclass(frozen=True, kw_only=True)
class Repeat:
    """Again and again, ``every_s`` in the mean after it was over, as long as it begins before ``until_s``."""

    every_s: float
    until_s: float

    def gap_s(self, rng: random.Random) -> float:
        """Exponentially distributed, of mean ``every_s``."""
        return -self.every_s * math.log1p(-rng.random())


def read_moment(field: Field, iterations: int) -> Moment:
    """When it begins, in a training of so many iterations. Raises: ScenarioError."""
    if not isinstance(field.value, dict):
        at, iteration = _at(field, iterations)
        return Moment(low=at, high=at, iteration=iteration)
    found = Findings()
    fields = field.keys(found, known=["between"], required=["between"])
    if found.errors:
        raise found.errors[0]
    ends = fields["between"].items()
    if len(ends) != 2:
        raise fields["between"].error(f"expected two moments, not {len(ends)}", "write e.g. [10s, 60s]")
    (low, iteration), (high, other) = (_at(end, iterations) for end in ends)
    if iteration is not other:
        raise fields["between"].error("one is a time and one an iteration", "write two of one kind")
    if not low < high:
        raise fields["between"].error("the second is not after the first", "write the earlier one first")
    return Moment(low=low, high=high, iteration=iteration)


def read_repeat(field: Field, moment: Moment, for_s: float | None) -> Repeat:
    """How often it happens again, which lasts ``for_s`` each time. Raises: ScenarioError."""
    found = Findings()
    fields = field.keys(found, known=("every", "until"), required=("every", "until"))
    if found.errors:
        raise found.errors[0]
    every_s, until_s = (fields[key].quantity(units.parse_span) for key in ("every", "until"))
    if moment.iteration:
        raise field.error("repeats after a time, but begins with an iteration", "write at: as a time, such as 20s")
    if until_s <= moment.high:
        raise fields["until"].error("is over before it begins", f"write more than {moment.high:g}s")
    mean_s = every_s + (for_s or 0.0)
    if every_s == 0 or (until_s - moment.low) / mean_s > MAX_TIMES:
        raise fields["every"].error(f"would happen more than {MAX_TIMES} times", "write a longer time")
    return Repeat(every_s=every_s, until_s=until_s)


def _at(field: Field, iterations: int) -> tuple[float, bool]:
    """(seconds, False) or (iteration, True). Raises: ScenarioError."""
    text = field.text()
    match = _ITERATION.fullmatch(text)
    if match is None:
        if "iteration" in text:
            raise field.error(f"{described(text)} is no iteration", "write e.g. iteration 30")
        return field.quantity(units.parse_span), False
    if int(match[1]) >= iterations:
        problem = f"{described(text)} never begins: training has {iterations}, counted from 0"
        raise field.error(problem, f"write at most iteration {iterations - 1}")
    return float(match[1]), True
