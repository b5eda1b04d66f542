"""How a schedule spells a value that changes over time: a :class:`~e2c_dl.scenario.schedule.Schedule`.

::

    {steps: {0s: 40mbit, 20s: 10mbit}}                 each holds until the next, the last for good
    {steps: {0s: 40mbit, 20s: 10mbit}, period: 60s}    after a minute it begins again
    {ramp: {0s: 40mbit, 30s: 5mbit}}                   straight lines between the points
    {trace: traces/lte.csv}                            as it was recorded, again and again; rates alone
    {trace: traces/lte.down, window: 100ms}            see :mod:`e2c_dl.scenario.recorded`

Times count from the beginning of training.
"""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

from e2c_dl import units
from e2c_dl.scenario.field import Field, Findings, described
from e2c_dl.scenario.recorded import read_trace
from e2c_dl.scenario.schedule import Schedule

FORMS = ("steps", "ramp", "trace")
EXAMPLE = "write e.g. {steps: {0s: ..., 20s: ...}}"

WINDOW_MIN_S, WINDOW_MAX_S = 0.01, 60.0
"""Over how long a trace may be averaged: nothing is changed more often than the least of these."""


def read_schedule(
    field: Field, value: Callable[[Field], float], found: Findings, *, traces_in: Path | None = None
) -> Schedule | None:
    """The schedule, its values read by ``value``; None after noting what is wrong.

    ``traces_in``: the scenario's folder; None where a recorded trace means nothing.
    """
    forms = FORMS if traces_in is not None else FORMS[:2]
    if not isinstance(field.value, dict):
        found.errors.append(field.error(f"expected a schedule, not {described(field.value)}", EXAMPLE))
        return None
    own = Findings()
    fields = field.keys(own, known=(*forms, "period", *(["window"] if traces_in is not None else [])))
    named = [form for form in forms if form in fields]
    if not own.errors and len(named) != 1:
        problem = f"names {' and '.join(named)}" if named else f"names none of {', '.join(forms)}"
        own.errors.append(field.error(problem, "write one of them"))
    schedule = None
    if not own.errors:
        form = fields[named[0]]
        if named[0] == "trace":
            schedule = own.attempt(_trace, fields, traces_in or Path())
        elif "window" in fields:
            own.errors.append(fields["window"].error("averages a trace, and none is named", "remove it"))
        else:
            schedule = _written(form, fields.get("period"), named[0] == "ramp", value, own)
    found.errors += own.errors
    return None if own.errors else schedule


def _written(
    form: Field, period: Field | None, ramp: bool, value: Callable[[Field], float], found: Findings
) -> Schedule | None:
    points: list[tuple[float, float]] = []
    for field in (found.attempt(form.fields) or {}).values():
        time_s = found.attempt(_rising, field.key(), points[-1][0] if points else None)
        number = found.attempt(value, field)
        if time_s is not None and number is not None:
            points.append((time_s, number))
    if not found.errors and len(points) < (2 if ramp else 1):
        found.errors.append(form.error("has too few points", "write at least " + ("two" if ramp else "one")))
    period_s = found.attempt(_period_s, period, points[-1][0]) if period is not None and points else None
    return None if found.errors else Schedule(points=tuple(points), ramp=ramp, period_s=period_s)


def _rising(field: Field, before_s: float | None) -> float:
    time_s = field.quantity(units.parse_span)
    if before_s is None and time_s != 0:
        raise field.error(f"begins at {described(field.value)}", "write its value at 0s first")
    if before_s is not None and time_s <= before_s:
        raise field.error(f"{described(field.value)} is not after the point before it", "write times that rise")
    return time_s


def _period_s(field: Field, last_s: float) -> float:
    period_s = field.quantity(units.parse_span)
    if period_s <= last_s:
        raise field.error(f"ends before or with the last point, at {last_s:g}s", f"write more than {last_s:g}s")
    return period_s


def _trace(fields: dict[str, Field], folder: Path) -> Schedule:
    if "period" in fields:
        raise fields["period"].error("a trace has its own length, after which it begins again", "remove it")
    window_s = None
    if "window" in fields:
        window_s = fields["window"].quantity(units.parse_span)
        if not WINDOW_MIN_S <= window_s <= WINDOW_MAX_S:
            raise fields["window"].error(f"{described(fields['window'].value)} is out of range", "write 10ms to 60s")
    return read_trace(fields["trace"], folder, window_s)
