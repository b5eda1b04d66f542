"""Links as the report shows them: designed, requested, measured, used; joined from links.json and Report."""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from e2c_dl import formatting
from e2c_dl.diagnosis.model import DESIGN, LinkSummary, Report
from e2c_dl.diagnosis.scripts import place_of
from e2c_dl.emulation.measuring.fidelity import BottleneckFidelity, LinkFidelity
from e2c_dl.emulation.measuring.measured import Measured
from e2c_dl.errors import ArchiveError, EmulationError
from e2c_dl.topology import Link, Pair

MOST_IDLE = 1_000
"""Links that training did not use are on the page, at most: those between 250 hosts are 15 MB of HTML."""


@dataclass(frozen=True, kw_only=True)
class LinkRow:
    """One directed link; ``fidelity`` is None where links.json lacks it, ``used`` where training did not use it.

    ``unshaped``: there is a scenario, and no rule of it names this link. ``untraced``: an end of it left no trace.
    """

    src: str
    dst: str
    fidelity: LinkFidelity | None = None
    used: LinkSummary | None = None
    unshaped: bool = False
    untraced: bool = False

    @property
    def pair(self) -> Pair:
        return self.src, self.dst

    @property
    def unused(self) -> str:
        """What is known of its use where that is nothing, for people."""
        return "not traced" if self.untraced else "not used"

    @property
    def measured(self) -> Measured | None:
        return self.fidelity.measured if self.fidelity else None

    @property
    def designed_rate_bps(self) -> float | None:
        return self.fidelity.designed.rate_bps if self.fidelity else None

    @property
    def known_rate_bps(self) -> float | None:
        """The measured rate, else the used one; None where neither is known, or messages support no rate."""
        seen = self.measured or self.used
        return seen.rate_bps if seen and math.isfinite(seen.rate_bps) else None

    @property
    def against_requested(self) -> float | None:
        """Measured over requested rate; None if either is missing."""
        return (
            _ratio(self.measured.rate_bps, self.fidelity.requested.rate_bps)
            if self.fidelity and self.measured
            else None
        )

    @property
    def against_design(self) -> float | None:
        """Known over designed rate; None if either is missing, or the link may be faster than could be measured.

        Also of a link that loses segments by design: how much of its rate TCP gets there is by luck.
        """
        if self.fidelity and self.fidelity.designed.mean_loss:
            return None
        ratio = _ratio(self.known_rate_bps, self.designed_rate_bps)
        return None if self._is_floor and ratio is not None and ratio < 1 else ratio

    @property
    def deviates(self) -> bool:
        """Whether it measures differently from what was requested, as emulation.fidelity defines it."""
        return bool(self.fidelity and self.fidelity.deviations())

    @property
    def designed(self) -> str:
        """Rate and one-way delay, for people."""
        one_way = f", {formatting.seconds(self.fidelity.designed.delay_s)} one way" if self.fidelity else ""
        return self.designed_rate + one_way

    @property
    def requested_rate(self) -> str:
        return limit(self.fidelity.requested) if self.fidelity else self._of_none

    @property
    def designed_rate(self) -> str:
        return limit(self.fidelity.designed) if self.fidelity else self._of_none

    @property
    def measured_rate(self) -> str:
        least = "≥ " if self._is_floor else ""
        return least + formatting.rate(self.measured.rate_bps if self.measured else None)

    @property
    def requested_round_trip(self) -> str:
        return formatting.seconds(self.fidelity.requested_round_trip_s if self.fidelity else None)

    @property
    def measured_round_trip(self) -> str:
        return formatting.seconds(self.measured.round_trip_s if self.measured else None)

    @property
    def _of_none(self) -> str:
        return formatting.UNLIMITED if self.unshaped else formatting.DASH

    @property
    def _is_floor(self) -> bool:
        return bool(self.measured and self.measured.rate_is_floor)


def limit(link: Link) -> str:
    """The rate of ``link``, for people."""
    return formatting.limit(link.rate_bps)


def link_rows(rows: Sequence[Mapping[str, Any]], report: Report) -> tuple[LinkRow, ...]:
    """One LinkRow per directed link that stands in links.json (``rows``) or was used; used ones first, then by name.

    Raises: ArchiveError for a row that emulation.fidelity did not write.
    """
    try:
        measured = {(link.src, link.dst): link for link in map(LinkFidelity.from_json, rows)}
    except EmulationError as error:
        raise ArchiveError(str(error)) from error
    used = {(link.src, link.dst): link for link in report.links}
    hosts = {host for pair in measured for host in pair}
    of = {(src, dst): (place_of(src, hosts), place_of(dst, hosts)) for src, dst in used}  # ranks share their host's
    order = [*used, *sorted(measured.keys() - {*of.values()})]
    known = {pair: measured.get(of.get(pair, pair)) for pair in order}
    ruled = bool(measured) or report.reference == DESIGN  # a network without any rule leaves no row
    lost = {*report.untraced}
    return tuple(
        LinkRow(
            src=p[0], dst=p[1], fidelity=known[p], used=used.get(p), unshaped=ruled and known[p] is None,
            untraced=p not in used and not lost.isdisjoint(p),
        ) for p in order
    )  # fmt: skip


def unused_words(rows: Iterable[LinkRow]) -> str:
    """``that training did not use``, of links that it did not as far as traces tell."""
    lost = any(row.untraced for row in rows)
    return "that training did not use, or whose use is not traced" if lost else "that training did not use"


def links_off(rows: Iterable[LinkRow]) -> int:
    """How many measured otherwise than requested."""
    return sum(row.deviates for row in rows)


def bottleneck_rows(rows: Sequence[Mapping[str, Any]]) -> tuple[BottleneckFidelity, ...]:
    """Rows of bottlenecks.json. Raises: ArchiveError for a row that emulation.fidelity did not write."""
    try:
        return tuple(map(BottleneckFidelity.from_json, rows))
    except EmulationError as error:
        raise ArchiveError(str(error)) from error


def _ratio(above: float | None, below: float | None) -> float | None:
    return None if above is None or not below else above / below  # a rate of 0 is none to compare with
