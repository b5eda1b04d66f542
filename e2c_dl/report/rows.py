"""Links as the report shows them: designed, requested, measured, used; joined from links.json and Report."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from e2c_dl import formatting
from e2c_dl.diagnosis.model import LinkSummary, Report
from e2c_dl.emulation.measuring.fidelity import BottleneckFidelity, LinkFidelity
from e2c_dl.errors import ArchiveError, EmulationError
from e2c_dl.topology import Pair


@dataclass(frozen=True, kw_only=True)
class LinkRow:
    """One directed link; ``fidelity`` is None where links.json lacks it, ``used`` where training did not use it."""

    src: str
    dst: str
    fidelity: LinkFidelity | None = None
    used: LinkSummary | None = None

    @property
    def pair(self) -> Pair:
        return self.src, self.dst

    @property
    def designed_rate_bps(self) -> float | None:
        return self.fidelity.designed.rate_bps if self.fidelity else None

    @property
    def asked_rate_bps(self) -> float | None:
        return self.fidelity.requested.rate_bps if self.fidelity else None

    @property
    def measured_rate_bps(self) -> float | None:
        return self.fidelity.measured.rate_bps if self.fidelity and self.fidelity.measured else None

    @property
    def used_rate_bps(self) -> float | None:
        return self.used.rate_bps if self.used else None

    @property
    def known_rate_bps(self) -> float | None:
        """The measured rate, else the used one."""
        return self.used_rate_bps if self.measured_rate_bps is None else self.measured_rate_bps

    @property
    def against_requested(self) -> float | None:
        """Measured over requested rate; None if either is missing."""
        return _ratio(self.measured_rate_bps, self.asked_rate_bps)

    @property
    def against_design(self) -> float | None:
        """Known over designed rate; None if either is missing, or the link may be faster than could be measured."""
        ratio = _ratio(self.known_rate_bps, self.designed_rate_bps)
        return None if self._is_floor and ratio is not None and ratio < 1 else ratio

    @property
    def deviates(self) -> bool:
        """Whether it measures differently from what was requested, as emulation.fidelity defines it."""
        return bool(self.fidelity and self.fidelity.deviations())

    @property
    def designed(self) -> str:
        """Rate and one-way delay, for people."""
        if self.fidelity is None:
            return formatting.DASH
        designed = self.fidelity.designed
        rate = "unlimited" if designed.rate_bps is None else formatting.rate(designed.rate_bps)
        return f"{rate}, {formatting.seconds(designed.delay_s)} one way"

    @property
    def requested_rate(self) -> str:
        unlimited = self.fidelity is not None and self.asked_rate_bps is None
        return "unlimited" if unlimited else formatting.rate(self.asked_rate_bps)

    @property
    def designed_rate(self) -> str:
        unlimited = self.fidelity is not None and self.designed_rate_bps is None
        return "unlimited" if unlimited else formatting.rate(self.designed_rate_bps)

    @property
    def measured_rate(self) -> str:
        return f"{'≥ ' if self._is_floor else ''}{formatting.rate(self.measured_rate_bps)}"

    @property
    def requested_round_trip(self) -> str:
        return formatting.seconds(self.fidelity.requested_round_trip_s if self.fidelity else None)

    @property
    def measured_round_trip(self) -> str:
        return formatting.seconds(
            self.fidelity.measured.round_trip_s if self.fidelity and self.fidelity.measured else None
        )

    @property
    def _is_floor(self) -> bool:
        return bool(self.fidelity and self.fidelity.measured and self.fidelity.measured.rate_is_floor)


def link_rows(rows: Sequence[Mapping[str, Any]], report: Report) -> tuple[LinkRow, ...]:
    """One LinkRow per directed link that stands in links.json (``rows``) or was used; used ones first, then by name.

    Raises: ArchiveError for a row that emulation.fidelity did not write.
    """
    try:
        measured = {(link.src, link.dst): link for link in map(LinkFidelity.from_json, rows)}
    except EmulationError as error:
        raise ArchiveError(str(error)) from error
    used = {(link.src, link.dst): link for link in report.links}
    order = [*used, *sorted(pair for pair in measured if pair not in used)]
    return tuple(LinkRow(src=p[0], dst=p[1], fidelity=measured.get(p), used=used.get(p)) for p in order)


def bottleneck_rows(rows: Sequence[Mapping[str, Any]]) -> tuple[BottleneckFidelity, ...]:
    """Rows of bottlenecks.json. Raises: ArchiveError for a row that emulation.fidelity did not write."""
    try:
        return tuple(map(BottleneckFidelity.from_json, rows))
    except EmulationError as error:
        raise ArchiveError(str(error)) from error


def _ratio(above: float | None, below: float | None) -> float | None:
    return None if above is None or not below else above / below  # a rate of 0 is none to compare with
