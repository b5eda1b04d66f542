"""Asked beside measured, and where the two differ: the rows of an archive's ``links.json``.

::

    designed   what the scenario says
    asked      what the emulator was told: the design with injected departures
    measured   what the hosts saw before training

A row deviates when its rate is more than 5 % off, its round trip by more than max(1 ms, 5 %), or its loss by more than
max(1 percentage point, 4 standard deviations of what so few samples can tell). Pure values.
"""

from __future__ import annotations

import dataclasses
import math
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from e2c_dl.errors import EmulationError
from e2c_dl.topology import Link

RATE_TOLERANCE = 0.05
ROUND_TRIP_TOLERANCE = 0.05
ROUND_TRIP_TOLERANCE_S = 0.001
LOSS_TOLERANCE = 0.01
LOSS_DEVIATIONS = 4


@dataclass(frozen=True, kw_only=True)
class Measured:
    """What one host measured of one outgoing link, idle but for the measurement."""

    rate_bps: float  # of Ethernet frames, headers included
    rate_is_floor: bool  # True: nothing held the frames back; the link carries at least this
    round_trip_s: float  # median; there and back
    round_trip_spread_s: float  # between the quartiles
    pings: int  # answered
    loss: float  # fraction of frames, at half of the rate
    loss_samples: int  # frames sent for it


@dataclass(frozen=True, kw_only=True)
class LinkFidelity:
    """One directed link, requested beside measured."""

    src: str
    dst: str
    designed: Link
    asked: Link
    asked_round_trip_s: float  # of the probes that measured it: both delays, and their time on both links
    measured: Measured | None  # None: nobody measured it

    def deviations(self) -> tuple[str, ...]:
        """One sentence for each property that measures differently from what was asked."""
        if self.measured is None:
            return ()
        found = (self._rate(self.measured), self._round_trip(self.measured), self._loss(self.measured))
        return tuple(f"{self.src} -> {self.dst}: {sentence}" for sentence in found if sentence)

    def caveats(self) -> tuple[str, ...]:
        """One sentence for each property that the measurement cannot vouch for."""
        if self.measured is None:
            return (f"{self.src} -> {self.dst}: not measured",)
        asked_bps, measured = self.asked.rate_bps, self.measured
        if asked_bps is not None and measured.rate_is_floor and measured.rate_bps < asked_bps * (1 - RATE_TOLERANCE):
            return (
                f"{self.src} -> {self.dst}: {_mbps(asked_bps)} asked, seen to carry {_mbps(measured.rate_bps)}; "
                "the measurement did not go higher",
            )
        return ()

    def to_json(self) -> dict[str, Any]:
        """A row of ``links.json``: the fields by name, nested."""
        return dataclasses.asdict(self)

    @classmethod
    def from_json(cls, row: Mapping[str, Any]) -> LinkFidelity:
        """Raises: EmulationError when ``row`` is not what ``to_json`` writes."""
        try:
            values = dict(row)
            values["designed"], values["asked"] = Link(**row["designed"]), Link(**row["asked"])
            values["measured"] = None if row["measured"] is None else Measured(**row["measured"])
            return cls(**values)
        except (KeyError, TypeError, ValueError) as error:
            raise EmulationError(f"links.json: a row is of another version ({error}); collect it again") from error

    def _rate(self, measured: Measured) -> str | None:
        asked_bps = self.asked.rate_bps
        if asked_bps is None:
            return None
        off = measured.rate_bps / asked_bps - 1
        # A floor says that the link is at least this fast: it can only be too fast, not too slow.
        if abs(off) <= RATE_TOLERANCE or (measured.rate_is_floor and off < 0):
            return None
        least = "at least " if measured.rate_is_floor else ""
        return f"{least}{_mbps(measured.rate_bps)} measured, {_mbps(asked_bps)} asked ({off:+.1%})"

    def _round_trip(self, measured: Measured) -> str | None:
        off_s = measured.round_trip_s - self.asked_round_trip_s
        if abs(off_s) <= max(ROUND_TRIP_TOLERANCE_S, ROUND_TRIP_TOLERANCE * self.asked_round_trip_s):
            return None
        return (
            f"round trip {measured.round_trip_s * 1e3:.2f} ms measured, "
            f"{self.asked_round_trip_s * 1e3:.2f} ms asked ({off_s * 1e3:+.2f} ms)"
        )

    def _loss(self, measured: Measured) -> str | None:
        asked = self.asked.loss
        deviation = math.sqrt(asked * (1 - asked) / measured.loss_samples)
        if abs(measured.loss - asked) <= max(LOSS_TOLERANCE, LOSS_DEVIATIONS * deviation):
            return None
        return f"loss {measured.loss:.2%} measured over {measured.loss_samples} frames, {asked:.2%} asked"


def _mbps(rate_bps: float) -> str:
    return f"{rate_bps / 1e6:.4g} Mbit/s"
