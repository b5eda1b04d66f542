"""What was measured of one link: values, to and from JSON. Intervals are of 95 %; :mod:`fidelity` judges them."""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping
from dataclasses import dataclass
from enum import Enum
from typing import Any

from e2c_dl.emulation.measuring.intervals import Interval


class RateFrom(str, Enum):
    """What the rate was measured with."""

    UDP = "udp"
    TCP = "tcp"  # its goodput, as frames: the link is faster than frames can be sent one by one


@dataclass(frozen=True, kw_only=True)
class Measured:
    """What one host measured of one outgoing link, idle but for the measurement.

    Intervals are of 95 %. What stands below ``thorough`` is None where a measurement was quick.
    """

    rate_bps: float  # of Ethernet frames, headers included
    rate_is_floor: bool  # True: nothing held the frames back; the link carries at least this
    round_trip_s: float  # median; there and back
    round_trip_spread_s: float  # between the quartiles
    pings: int  # answered
    loss: float  # fraction of frames, below the rate
    loss_samples: int  # frames sent for it
    thorough: bool = False
    rate_from: RateFrom = RateFrom.UDP
    rate_interval_bps: Interval | None = None
    goodput_bps: float | None = None  # payload of one TCP connection
    goodput_interval_bps: Interval | None = None
    round_trip_interval_s: Interval | None = None  # of the median
    loss_interval: Interval | None = None
    loss_burst: float | None = None  # mean frames lost in a row; None without losses too
    delay_spread_s: float | None = None  # one way, between the quartiles
    delay_spread_interval_s: Interval | None = None
    reordered: float | None = None  # the least fraction of frames without which the others are in order

    def to_json(self) -> dict[str, Any]:
        """The fields by name; ``from_json`` takes it back."""
        return dataclasses.asdict(self) | {"rate_from": self.rate_from.value}

    @classmethod
    def from_json(cls, value: Mapping[str, Any]) -> Measured:
        """Raises: TypeError, ValueError when ``value`` is not what ``to_json`` writes, in this version or before."""
        fields: dict[str, Any] = {
            name: _interval(field) if "_interval" in name else field for name, field in value.items()
        }
        if "rate_from" in fields:
            fields["rate_from"] = RateFrom(fields["rate_from"])
        return cls(**fields)


@dataclass(frozen=True, kw_only=True)
class Share:
    """What one link carried while others of its bottleneck were full too."""

    rate_bps: float
    interval_bps: Interval
    offered_bps: float  # what was sent

    @classmethod
    def from_json(cls, value: Mapping[str, Any]) -> Share:
        """Raises: TypeError, ValueError, KeyError when ``value`` is not the fields by name."""
        least, most = value["interval_bps"]
        return cls(**dict(value) | {"interval_bps": (float(least), float(most))})


def _interval(value: Any) -> Interval | None:
    if value is None:
        return None
    least, most = value
    return float(least), float(most)
