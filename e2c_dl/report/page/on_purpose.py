"""What a run's scenario slowed on purpose, in sentences; the diagnosis is told none of it."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

import msgspec

from e2c_dl import formatting, typed
from e2c_dl.archive.run import Run
from e2c_dl.report.page.sections import bullets, section

_Does = Callable[[float], str]
_DOES: Mapping[str, _Does] = {
    "cut": lambda _: "carries nothing",
    "slow_link": lambda value: f"{value:g} of its rate",
    "late_link": lambda value: f"delivers {formatting.seconds(value)} later",
    "lossy_link": lambda value: f"loses {formatting.percent(value)} of its segments besides",
    "slow_host": lambda value: f"computes {formatting.times(value)} slower",
    "late_data": lambda value: f"its batches come {formatting.seconds(value)} later",
    "late_step": lambda value: f"its steps take {formatting.seconds(value)} longer",
    "pause": lambda _: "its worker is stopped",
    "kill": lambda _: "its worker is killed",
    "clock_step": lambda value: f"the clock of its trace jumps by {value:+g} s",
    "clock_drift": lambda value: f"the clock of its trace gains {value * 1e6:g} ppm",
}


class _Fault(msgspec.Struct, frozen=True):
    """One of run.json, as far as it is told here."""

    kind: str
    at_s: float | None = None
    at_iteration: int | None = None
    for_s: float | None = None
    host: str | None = None
    links: tuple[tuple[str, str], ...] = ()
    value: float | None = None

    @property
    def what(self) -> str:
        """Whom it meets, and what it does there."""
        first, more = next(iter(self.links), None), len(self.links) - 1
        whom = self.host or (" -> ".join(first) if first else "nobody")
        others = f" and {formatting.count(more, 'more link')}" if more > 0 else ""
        does = _DOES.get(self.kind)
        return f"{whom}{others}: {does(self.value or 0.0) if does else self.kind}"

    @property
    def when(self) -> str:
        begins = f"with iteration {self.at_iteration}" if self.at_s is None else f"from {self.at_s:g} s on"
        return begins if self.for_s is None else f"{begins}, for {formatting.seconds(self.for_s)}"


def on_purpose(run: Run) -> str:
    """The section of the page; nothing if the scenario slowed nothing down on purpose."""
    hosts = [f"{host}: computes {factor} × slower" for host, factor in _mapping(run.injected.get("compute"))]
    links = [f"{link}: {factor} of its designed rate" for link, factor in _mapping(run.injected.get("links"))]
    said = [*hosts, *links, *_faults(run.injected.get("faults"))]
    if not said:
        return ""
    caption = "The scenario injects these departures to test the diagnosis, which is not told of them."
    return section("Slowed on purpose", caption, bullets(said))


def _faults(found: Any) -> list[str]:
    """A sentence for each; one for all times that the same happens again and again."""
    try:
        faults = typed.convert(found or (), tuple[_Fault, ...])
    except msgspec.ValidationError as error:  # of another version: the rest of the page does not depend on it
        return [f"faults that cannot be read: {error}"]
    times: dict[str, list[str]] = {}
    for fault in faults:
        times.setdefault(fault.what, []).append(fault.when)
    return [
        f"{what}, {first}" + (f", and {formatting.count(len(more), 'time')} more" if more else "")
        for what, (first, *more) in times.items()
    ]


def _mapping(value: Any) -> list[tuple[str, Any]]:
    return [(str(key), item) for key, item in value.items()] if isinstance(value, Mapping) else []
