"""Forms in which a value that changes over time is spelled, to a :class:`~e2c_dl.scenario.schedule.Schedule`.

::

    {steps: {0s: 40mbit, 20s: 10mbit}}                 each holds until the next, the last for good
    {steps: {0s: 40mbit, 20s: 10mbit}, period: 60s}    after a minute it begins again
    {ramp: {0s: 40mbit, 30s: 5mbit}}                   straight lines between the points
    {trace: traces/lte.csv}                            as it was recorded, again and again; rates alone
    {trace: traces/lte.down, window: 100ms}            see :mod:`e2c_dl.scenario.bandwidth_traces`

Times count from the beginning of training.
"""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

from e2c_dl.scenario.bandwidth_traces import NAME_PATTERN, read_trace
from e2c_dl.scenario.documents.field import Field, Findings, described
from e2c_dl.scenario.documents.keys import DELAY, LOSS, RATE, SPAN, Key, Keys, Kind, Schema, needed, unread
from e2c_dl.scenario.emulation.hosts import CORES, FACTOR
from e2c_dl.scenario.schedule import Schedule

EXAMPLE = "write e.g. {steps: {0s: ..., 20s: ...}}"

WINDOW_MIN_S, WINDOW_MAX_S = 0.01, 60.0
"""Over how long a trace may be averaged: nothing is changed more often than the least of these."""

_TRACE = Keys(
    trace=needed(
        unread({"type": "string", "pattern": f"^{NAME_PATTERN}$"}),
        "A file in the scenario's folder traces: *.csv (time_s, rate_bps), or else as Mahimahi records it. Begins "
        "again at its end.",
    ),
    window=Key(
        SPAN, "Averages the trace over windows this long, from 10ms to 60s. A trace of Mahimahi: 100ms if absent."
    ),
)


@dataclass(frozen=True, kw_only=True)
class Forms:
    """The forms of a schedule of one value: ``steps``, ``ramp``, and of a rate ``trace``."""

    of: str  # rate
    value: Kind[float]
    traces: bool = False

    @property
    def kind(self) -> Kind[Field]:
        """Such a schedule, as the value of a key; :meth:`read` reads it, which asks for the scenario's folder."""
        forms = [
            self._points("steps", "each holds until the next", 1),
            self._points("ramp", "straight lines between them", 2),
            *([_TRACE.schema] if self.traces else []),
        ]
        return unread({"description": f"{self.of.capitalize()} over time.", "anyOf": forms})

    def read(self, field: Field, found: Findings, folder: Path) -> Schedule | None:
        """The schedule, in a scenario in ``folder``; None after noting in ``found`` what is wrong."""
        forms = ("steps", "ramp", "trace") if self.traces else ("steps", "ramp")
        if not isinstance(field.value, dict):
            found.errors.append(field.error(f"expected a schedule, not {described(field.value)}", EXAMPLE))
            return None
        own = Findings()
        fields = field.keys(own, known=(*forms, "period", *(["window"] if self.traces else [])))
        named = [form for form in forms if form in fields]
        if not own.errors and len(named) != 1:
            problem = f"names {' and '.join(named)}" if named else f"names none of {', '.join(forms)}"
            own.errors.append(field.error(problem, "write one of them"))
        schedule = None
        if not own.errors and named[0] == "trace":
            schedule = own.attempt(_trace, fields, folder)
        elif not own.errors and "window" in fields:
            own.errors.append(fields["window"].error("averages a trace, and none is named", "remove it"))
        elif not own.errors:
            schedule = _written(fields[named[0]], fields.get("period"), named[0] == "ramp", self.value, own)
        found.take(own)
        return None if own.errors else schedule

    def _points(self, form: str, says: str, least: int) -> Schema:
        points: Schema = {"type": "object", "minProperties": least, "additionalProperties": self.value.schema}
        kind = unread({**points, "propertyNames": SPAN.schema})
        return Keys(
            {
                form: needed(kind, f"Time of training: {self.of}; {says}. Begin at 0s."),
                "period": Key(SPAN, "After it, it begins again."),
            }
        ).schema


RATES = Forms(of="rate", value=RATE, traces=True)
DELAYS = Forms(of="delay", value=DELAY)
LOSSES = Forms(of="loss", value=LOSS)
FACTORS = Forms(of="factor", value=FACTOR)
CORES_OVER_TIME = Forms(of="cores", value=CORES)


def _written(form: Field, period: Field | None, ramp: bool, value: Kind[float], found: Findings) -> Schedule | None:
    points: list[tuple[float, float]] = []
    for field in (found.attempt(form.fields) or {}).values():
        time_s = found.attempt(_rising, field.key(), points[-1][0] if points else None)
        number = found.attempt(value.read, field)
        if time_s is not None and number is not None:
            points.append((time_s, number))
    if not found.errors and len(points) < (2 if ramp else 1):
        found.errors.append(form.error("has too few points", "write at least " + ("two" if ramp else "one")))
    period_s = found.attempt(_period_s, period, points[-1][0]) if period is not None and points else None
    return None if found.errors else Schedule(points=tuple(points), ramp=ramp, period_s=period_s)


def _rising(field: Field, before_s: float | None) -> float:
    time_s = SPAN.read(field)
    if before_s is None and time_s != 0:  # until its first point it would have no value
        raise field.error(f"begins at {described(field.value)}", "write its value at 0s first")
    if before_s is not None and time_s <= before_s:
        raise field.error(f"{described(field.value)} is not after the point before it", "write times that rise")
    return time_s


def _period_s(field: Field, last_s: float) -> float:
    period_s = SPAN.read(field)
    if period_s <= last_s:
        raise field.error(f"ends before or with the last point, at {last_s:g}s", f"write more than {last_s:g}s")
    return period_s


def _trace(fields: dict[str, Field], folder: Path) -> Schedule:
    if "period" in fields:
        raise fields["period"].error("a trace has its own length, after which it begins again", "remove it")
    window_s = None
    if "window" in fields:
        window_s = SPAN.read(fields["window"])
        if not WINDOW_MIN_S <= window_s <= WINDOW_MAX_S:
            raise fields["window"].error(f"{described(fields['window'].value)} is out of range", "write 10ms to 60s")
    return read_trace(fields["trace"], folder, window_s)
