"""Requested beside measured, and where the two differ: the rows of an archive's ``links.json``.

::

    designed   what the scenario says; at most the rate of its bottleneck
    requested  what the emulator was told: the design with injected departures
    measured   what the hosts saw before training (quickly), or when somebody asked (thoroughly)

A row deviates when its rate is more than 5 % off, or its round trip by more than max(1 ms, 5 %); of links with jitter
the medians are compared, and four standard errors of so few pings come on top. Its loss deviates, quickly measured, by
more than max(1 percentage point, 4 standard deviations of what so few samples can tell); thoroughly measured, when it
is more than 0.2 percentage points off and what was requested is not in the interval of 99.99 % either. Pure values.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Annotated, Any

import msgspec

from e2c_dl import formatting, typed
from e2c_dl.emulation.measuring import expected
from e2c_dl.emulation.measuring.datagrams import PING_FRAME_BYTES
from e2c_dl.emulation.measuring.measured import VERDICT_CONFIDENCE, Measured, Share, fraction_interval
from e2c_dl.errors import EmulationError
from e2c_dl.topology import MOST_BPS, Delay, Link, Pair, Topology

RATE_TOLERANCE = 0.05
ROUND_TRIP_TOLERANCE = 0.05
ROUND_TRIP_TOLERANCE_S = 0.001
LOSS_TOLERANCE, LOSS_TOLERANCE_THOROUGH = 0.01, 0.002
LOSS_DEVIATIONS = ROUND_TRIP_ERRORS = 4
SPREAD_TOLERANCE, SPREAD_TOLERANCE_S = 0.2, 0.001  # of the one-way delay's spread; judged where jitter was requested
_Judged = tuple[float, str]  # how far off, in tolerances, and the sentence that says so
_QUARTILES_TO_ERROR = 1.2533 / 1.349  # standard error of a median, from the spread of one, times the root of how many


class _Ends(msgspec.Struct):
    src: str
    dst: str


class _Row(msgspec.Struct):
    name: str
    requested_bps: Annotated[float, msgspec.Meta(gt=0, le=MOST_BPS)]
    shares: list[_Ends]


@dataclass(frozen=True, kw_only=True)
class BottleneckFidelity:
    """What a bottleneck carried while all its links were full."""

    name: str
    requested_bps: float  # its rate, or the sum of its links' where that is less
    shares: tuple[tuple[Pair, Share], ...]

    @property
    def measured_bps(self) -> float:
        return sum(share.rate_bps for _, share in self.shares)

    def deviations(self) -> tuple[str, ...]:
        """A sentence if the sum is not what was requested."""
        off = self.measured_bps / self.requested_bps - 1
        if abs(off) <= RATE_TOLERANCE:
            return ()
        measured, requested = formatting.rate(self.measured_bps), formatting.rate(self.requested_bps)
        return (f"bottleneck {self.name}: {measured} measured in all, {requested} requested ({off:+.1%})",)

    def to_json(self) -> dict[str, Any]:
        """A row of ``bottlenecks.json``."""
        shares = [{"src": src, "dst": dst, **msgspec.to_builtins(share)} for (src, dst), share in self.shares]
        rates = {"requested_bps": self.requested_bps, "measured_bps": self.measured_bps}
        return {"name": self.name, **rates, "shares": shares}

    @classmethod
    def from_json(cls, row: Mapping[str, Any]) -> BottleneckFidelity:
        """Raises: EmulationError when ``row`` is not what ``to_json`` writes."""
        try:
            read = typed.convert(row, _Row)
            shares = tuple(
                ((each.src, each.dst), typed.convert(one, Share))
                for each, one in zip(read.shares, row["shares"], strict=True)
            )
        except ValueError as error:
            raise EmulationError(
                f"bottlenecks.json: a row is of another version ({error}); measure it again"
            ) from error
        return cls(name=read.name, requested_bps=read.requested_bps, shares=shares)


@dataclass(frozen=True, kw_only=True)
class LinkFidelity:
    """One directed link, requested beside measured."""

    src: str
    dst: str
    designed: Link
    requested: Link
    requested_round_trip_s: Delay  # of the probes that measured it: median
    measured: Measured | None  # None: nobody measured it
    requested_round_trip_spread_s: Delay = 0.0  # between the quartiles; 0 without jitter
    failed: str = ""  # why measuring it told nothing, if somebody tried

    @classmethod
    def of(
        cls, src: str, dst: str, *, designed: Topology, requested: Topology, measured: Measured | None, failed: str = ""
    ) -> LinkFidelity:
        """The row of ``src`` -> ``dst``: designed and requested are what it is alone, nobody else on its bottleneck."""
        there, back = expected.alone(requested, src, dst), expected.alone(requested, dst, src)
        median_s, spread_s = expected.round_trip_s(there, back, PING_FRAME_BYTES)
        return cls(
            src=src,
            dst=dst,
            designed=expected.alone(designed, src, dst),
            requested=there,
            requested_round_trip_s=median_s,
            requested_round_trip_spread_s=spread_s,
            measured=measured,
            failed=failed,
        )

    def deviations(self) -> tuple[str, ...]:
        """One sentence for each property that measures differently from what was requested; or why none was."""
        if self.failed:
            return (f"{self.src} -> {self.dst}: {self.failed}",)
        return tuple(f"{self.src} -> {self.dst}: {sentence}" for off, sentence in self._judged() if off > 1)

    @property
    def off(self) -> float | None:
        """How far the worst property is off, in tolerances: above 1 it deviates. None: not measured."""
        return None if self.measured is None else max((off for off, _ in self._judged()), default=0.0)

    def limitations(self) -> tuple[str, ...]:
        """One sentence for each property that the measurement cannot vouch for."""
        if self.measured is None:
            return (f"{self.src} -> {self.dst}: not measured",)
        requested_bps, seen_bps = self.requested.rate_bps, self.measured.rate_bps
        if requested_bps is None or not self.measured.rate_is_floor or seen_bps >= requested_bps * (1 - RATE_TOLERANCE):
            return ()
        rates = f"{formatting.rate(requested_bps)} requested, seen to carry {formatting.rate(seen_bps)}"
        return (f"{self.src} -> {self.dst}: {rates}; the measurement did not go higher",)

    def to_json(self) -> dict[str, Any]:
        """A row of ``links.json``: the fields by name, nested."""
        return dict(msgspec.to_builtins(self))

    @classmethod
    def from_json(cls, row: Mapping[str, Any]) -> LinkFidelity:
        """Raises: EmulationError when ``row`` is not what ``to_json`` writes."""
        try:
            return typed.convert(row, cls)
        except ValueError as error:
            raise EmulationError(f"links.json: a row is of another version ({error}); collect it again") from error

    def _judged(self) -> list[_Judged]:
        measured = self.measured
        if measured is None:
            return []
        found = (self._rate(measured), self._round_trip(measured), self._spread(measured), self._loss(measured))
        return [each for each in found if each is not None]

    def _rate(self, measured: Measured) -> _Judged | None:
        requested_bps = self.requested.rate_bps
        if requested_bps is None:
            return None
        off = measured.rate_bps / requested_bps - 1
        # A floor says that the link is at least this fast: it can only be too fast, not too slow.
        if measured.rate_is_floor and off < 0:
            return None
        least = "at least " if measured.rate_is_floor else ""
        rates = f"{formatting.rate(measured.rate_bps)} measured, {formatting.rate(requested_bps)} requested"
        return abs(off) / RATE_TOLERANCE, f"{least}{rates} ({off:+.1%})"

    def _round_trip(self, measured: Measured) -> _Judged:
        off_s = measured.round_trip_s - self.requested_round_trip_s
        error_s = _QUARTILES_TO_ERROR * self.requested_round_trip_spread_s / math.sqrt(measured.pings)
        tolerance_s = max(ROUND_TRIP_TOLERANCE_S, ROUND_TRIP_TOLERANCE * self.requested_round_trip_s)
        return abs(off_s) / (tolerance_s + ROUND_TRIP_ERRORS * error_s), (
            f"round trip {measured.round_trip_s * 1e3:.2f} ms measured, "
            f"{self.requested_round_trip_s * 1e3:.2f} ms requested ({off_s * 1e3:+.2f} ms)"
        )

    def _spread(self, measured: Measured) -> _Judged | None:
        if measured.delay_spread_s is None or not self.requested.jitter_s:
            return None
        requested_s = expected.spread_s(self.requested)
        off_s = abs(measured.delay_spread_s - requested_s)
        return off_s / max(SPREAD_TOLERANCE_S, SPREAD_TOLERANCE * requested_s), (
            f"delays spread over {measured.delay_spread_s * 1e3:.2f} ms between quartiles, "
            f"{requested_s * 1e3:.2f} ms requested by its jitter"
        )

    def _loss(self, measured: Measured) -> _Judged:
        requested = self.requested.mean_loss
        samples = expected.independent(measured.loss_samples, self.requested)
        if measured.thorough:
            least, most = fraction_interval(measured.loss * samples, samples, VERDICT_CONFIDENCE)
            chance = most - measured.loss if requested > measured.loss else measured.loss - least
            allowed = max(LOSS_TOLERANCE_THOROUGH, chance)
        else:
            allowed = max(LOSS_TOLERANCE, LOSS_DEVIATIONS * math.sqrt(requested * (1 - requested) / samples))
        sentence = f"loss {measured.loss:.2%} measured over {measured.loss_samples} frames, {requested:.2%} requested"
        return abs(measured.loss - requested) / allowed, sentence
