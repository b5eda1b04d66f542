"""Strings with units to SI numbers and back: the one parser of rates, delays, losses and sizes.

::

    rate    "500kbit" "10mbit" "1gbit"     <-> bits per second     decimal prefixes, as tc reads them
    delay   "200us"   "10ms"   "1.5s"      <-> seconds
    loss    "0.1%"    "1%"                 <-> fraction, 0 <= loss < 1
    size    "64KiB"   "1MiB"   "9000B"     <-> bytes
    span    "500ms"   "20s"    "2min"       -> seconds              of a schedule: up to a week
    share   "30%"     "100%"                -> fraction, 0 <= share <= 1
    offset  "50ms"    "-50ms"               -> seconds, either way
    drift   "100ppm"  "-100ppm"             -> seconds per second, either way

Spelling is strict where tc and people disagree: tc reads ``10mbps`` as ten *megabytes* per second and a bare ``10`` as
microseconds, so both are refused with what to write instead. Upper and lower case are the same, but not in sizes.
"""

from __future__ import annotations

import math
import re
from collections.abc import Mapping

RATE_MIN_BPS, RATE_MAX_BPS = 1e3, 100e9
DELAY_MAX_S = 60.0
SIZE_MAX_BYTES = 2**40
SPAN_MAX_S = 7 * 24 * 3600.0
DRIFT_MAX = 0.1  # seconds per second
FULL_FRAME_BYTES = 1514
"""An Ethernet frame with an IP packet of 1500 bytes in it: the unit of queue limits and of recorded traces."""

_RATES: Mapping[str, float] = {"bit": 1.0, "kbit": 1e3, "mbit": 1e6, "gbit": 1e9}
_DELAYS: Mapping[str, float] = {"us": 1e-6, "ms": 1e-3, "s": 1.0}
_SIZES: Mapping[str, float] = {"B": 1.0, "KiB": 2.0**10, "MiB": 2.0**20, "GiB": 2.0**30}
_SPANS: Mapping[str, float] = {"ms": 1e-3, "s": 1.0, "min": 60.0, "h": 3600.0}
_QUANTITY = re.compile(r"(?P<number>[0-9]+(?:\.[0-9]*)?|\.[0-9]+)(?P<unit>[A-Za-z%/]*)")
_BYTES_PER_SECOND = re.compile(r"([kmgt]?)bps", re.IGNORECASE)


def parse_rate(text: str) -> float:
    """Bits per second of e.g. ``"10mbit"``, from 1 kbit to 100 gbit.

    Raises: ValueError, naming what to write instead.
    """
    number, unit = _split(text, "a rate", "10mbit")
    bytes_unit = _BYTES_PER_SECOND.fullmatch(unit)
    if bytes_unit:
        bits = f"{number:g}{bytes_unit[1].lower()}bit"
        raise ValueError(f"{_shown(text)} means bytes per second to tc; write {bits} for bits per second")
    rate_bps = number * _factor(text, unit.lower(), _RATES, "10mbit")
    if not RATE_MIN_BPS <= rate_bps <= RATE_MAX_BPS:
        raise ValueError(f"{_shown(text)} is out of range; write a rate from 1kbit to 100gbit")
    return rate_bps


def parse_delay(text: str) -> float:
    """Seconds of e.g. ``"10ms"``, from 0 to less than 60 s.

    Raises: ValueError, naming what to write instead.
    """
    number, unit = _split(text, "a delay", "10ms")
    delay_s = number * _factor(text, unit.lower(), _DELAYS, "10ms")
    if not delay_s < DELAY_MAX_S:
        raise ValueError(f"{_shown(text)} is out of range; write a delay below 60s")
    return delay_s


def parse_loss(text: str) -> float:
    """Fraction of segments lost, of e.g. ``"1%"`` (0.01), from 0 to less than 1.

    Raises: ValueError, naming what to write instead.
    """
    number, unit = _split(text, "a loss", "1%")
    loss = number * _factor(text, unit, {"%": 0.01}, "1%")
    if not loss < 1.0:
        raise ValueError(f"{_shown(text)} is out of range; write a loss below 100%")
    return loss


def parse_size(text: str) -> int:
    """Bytes of e.g. ``"64KiB"``, at least 1, at most 1 TiB; a size is a whole number of bytes.

    Raises: ValueError, naming what to write instead.
    """
    number, unit = _split(text, "a size", "64KiB")
    size_bytes = number * _factor(text, unit, _SIZES, "64KiB")
    if not 1 <= size_bytes <= SIZE_MAX_BYTES:
        raise ValueError(f"{_shown(text)} is out of range; write a size from 1B to 1024GiB")
    if size_bytes != int(size_bytes):
        raise ValueError(f"{_shown(text)} is no whole number of bytes; write e.g. 64KiB")
    return int(size_bytes)


def parse_span(text: str) -> float:
    """Seconds of e.g. ``"20s"``, from 0 to a week.

    Raises: ValueError, naming what to write instead.
    """
    number, unit = _split(text, "a time", "20s")
    span_s = number * _factor(text, unit.lower(), _SPANS, "20s")
    if not span_s <= SPAN_MAX_S:
        raise ValueError(f"{_shown(text)} is out of range; write at most 168h")
    return span_s


def parse_share(text: str) -> float:
    """Fraction of e.g. ``"30%"`` (0.3), from 0 to 1.

    Raises: ValueError, naming what to write instead.
    """
    number, unit = _split(text, "a share", "30%")
    share = number * _factor(text, unit, {"%": 0.01}, "30%")
    if not share <= 1.0:
        raise ValueError(f"{_shown(text)} is out of range; write at most 100%")
    return share


def parse_offset(text: str) -> float:
    """Seconds of e.g. ``"50ms"`` or ``"-50ms"``: not 0, less than 60 s either way.

    Raises: ValueError, naming what to write instead.
    """
    sign, magnitude = _signed(text)
    number, unit = _split(magnitude, "an offset", "50ms")
    offset_s = number * _factor(text, unit.lower(), _DELAYS, "50ms")
    if not 0 < offset_s < DELAY_MAX_S:
        raise ValueError(
            f"{_shown(text)} is out of range; write an offset above 0s and below 60s, such as 50ms or -50ms"
        )
    return sign * offset_s


def parse_drift(text: str) -> float:
    """Seconds gained per second, of e.g. ``"100ppm"`` (0.0001) or ``"-100ppm"``: not 0, at most 100000 ppm either way.

    Raises: ValueError, naming what to write instead.
    """
    sign, magnitude = _signed(text)
    number, unit = _split(magnitude, "a drift", "100ppm")
    drift = number * _factor(text, unit.lower(), {"ppm": 1e-6}, "100ppm")
    if not 0 < drift <= DRIFT_MAX:
        raise ValueError(f"{_shown(text)} is out of range; write a drift up to 100000ppm, such as 100ppm or -100ppm")
    return sign * drift


def format_rate(rate_bps: float) -> str:
    """``"10mbit"`` of 10e6: the largest unit that leaves at least 1, six decimals at most."""
    return _format(rate_bps, _RATES)


def format_delay(delay_s: float) -> str:
    """``"10ms"`` of 0.01: the largest unit that leaves at least 1, six decimals at most."""
    return _format(delay_s, _DELAYS)


def format_loss(loss: float) -> str:
    """``"1%"`` of 0.01, six decimals at most."""
    return _format(loss, {"%": 0.01})


def format_size(size_bytes: int) -> str:
    """``"64KiB"`` of 65536: the largest unit that divides it, so nothing is rounded."""
    unit = max((u for u, factor in _SIZES.items() if size_bytes % int(factor) == 0), key=lambda u: _SIZES[u])
    return f"{size_bytes // int(_SIZES[unit])}{unit}"


def _signed(text: str) -> tuple[float, str]:
    """(1 or -1, what is behind the sign) of ``text``."""
    stripped = text.strip()
    return (-1.0, stripped[1:]) if stripped.startswith("-") else (1.0, stripped)


def _split(text: str, what: str, example: str) -> tuple[float, str]:
    """Number and unit of ``text``. Raises: ValueError, if it is not one non-negative decimal number with a unit."""
    match = _QUANTITY.fullmatch(text.strip())
    if match is None:
        raise ValueError(f"{_shown(text)} is not {what}: a number and a unit without a space; write e.g. {example}")
    number = float(match["number"])
    if not math.isfinite(number):
        raise ValueError(f"{_shown(text)} is out of range; write e.g. {example}")
    return number, match["unit"]


def _factor(text: str, unit: str, units: Mapping[str, float], example: str) -> float:
    if not unit:
        raise ValueError(f"{_shown(text)} has no unit; write e.g. {example}")
    if unit not in units:
        raise ValueError(f"{_shown(text)} has an unknown unit; write one of {', '.join(units)}, e.g. {example}")
    return units[unit]


def _format(value: float, units: Mapping[str, float]) -> str:
    ascending = sorted(units.items(), key=lambda item: item[1])
    unit, factor = next((item for item in reversed(ascending) if value >= item[1]), ascending[0])
    text = f"{value / factor:.6f}".rstrip("0").rstrip(".")
    return f"{text}{unit}"


def _shown(text: str) -> str:
    return repr(text if len(text) <= 40 else f"{text[:37]}...")
