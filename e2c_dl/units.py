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

What is formatted here is read back as the same number; for people, see :mod:`e2c_dl.formatting`. Spelling is strict
where tc and people disagree: tc reads ``10mbps`` as ten *megabytes* per second and a bare ``10`` as microseconds, so
both are refused with what to write instead. Upper and lower case are the same, but not in sizes.
"""

from __future__ import annotations

import math
import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass

RATE_MIN_BPS, RATE_MAX_BPS = 1e3, 100e9
DELAY_MAX_S = 60.0
SIZE_MAX_BYTES = 2**40
SPAN_MAX_S = 7 * 24 * 3600.0
DRIFT_MAX = 0.1  # seconds per second
FULL_FRAME_BYTES = 1514
"""An Ethernet frame with an IP packet of 1500 bytes in it: the unit of queue limits and of recorded traces."""

_DELAYS: Mapping[str, float] = {"us": 1e-6, "ms": 1e-3, "s": 1.0}
_NUMBER = r"([0-9]+(\.[0-9]*)?|\.[0-9]+)"
_QUANTITY = re.compile(rf"(?P<number>{_NUMBER})(?P<unit>[A-Za-z%/]*)")
_BYTES_PER_SECOND = re.compile(r"([kmgt]?)bps", re.IGNORECASE)


@dataclass(frozen=True)
class Quantity:
    """Spelling of one quantity: a decimal number and a unit without a space between them.

    ::

        DELAY.parse("10ms")    0.01
        DELAY.parse("70s")     ValueError: '70s' is out of range; write a delay below 60s
    """

    what: str  # "a rate"
    units: Mapping[str, float]  # spelling -> in SI
    example: str
    valid: Callable[[float], bool]
    write: str  # instead of what is not valid
    any_case: bool = True
    signed: bool = False

    @property
    def pattern(self) -> str:
        """A regular expression, of JSON Schema as of Python, for every number in these units, in range or not."""
        return ("-?" if self.signed else "") + f"{_NUMBER}({'|'.join(map(self._cases, self.units))})"

    def parse(self, text: str) -> float:
        """The SI value of ``text``. Raises: ValueError, "problem; remedy", naming what to write instead."""
        stripped = text.strip()
        negative = self.signed and stripped.startswith("-")
        number, unit = _split(stripped[negative:], self)
        if not unit:
            raise ValueError(f"{_shown(text)} has no unit; write e.g. {self.example}")
        factor = self.units.get(unit.lower() if self.any_case else unit)
        if factor is None:
            units = ", ".join(self.units)
            raise ValueError(f"{_shown(text)} has an unknown unit; write one of {units}, e.g. {self.example}")
        value = number * factor
        if not self.valid(value):
            raise ValueError(f"{_shown(text)} is out of range; write {self.write}")
        return -value if negative else value

    def format(self, value: float) -> str:
        """``value`` in the greatest unit that it is at least one of."""
        ascending = sorted(self.units.items(), key=lambda item: item[1])
        unit, factor = next((item for item in reversed(ascending) if value >= item[1]), ascending[0])
        return f"{value / factor:.6f}".rstrip("0").rstrip(".") + unit  # no exponents: they are not read back

    def _cases(self, unit: str) -> str:
        # JSON Schema has no flag for it: each letter is spelled in both cases.
        return "".join(f"[{c}{c.upper()}]" if c.isalpha() else c for c in unit) if self.any_case else unit


_BITS = {"bit": 1.0, "kbit": 1e3, "mbit": 1e6, "gbit": 1e9}
_BYTES = {"B": 1.0, "KiB": 2.0**10, "MiB": 2.0**20, "GiB": 2.0**30}
_TIMES = {"ms": 1e-3, "s": 1.0, "min": 60.0, "h": 3600.0}
_OFFSETS = "an offset above 0s and below 60s, such as 50ms or -50ms"
_DRIFTS = "a drift up to 100000ppm, such as 100ppm or -100ppm"

RATE = Quantity("a rate", _BITS, "10mbit", lambda r: RATE_MIN_BPS <= r <= RATE_MAX_BPS, "a rate from 1kbit to 100gbit")
DELAY = Quantity("a delay", _DELAYS, "10ms", lambda s: s < DELAY_MAX_S, "a delay below 60s")
LOSS = Quantity("a loss", {"%": 0.01}, "1%", lambda loss: loss < 1.0, "a loss below 100%")
SHARE = Quantity("a share", {"%": 0.01}, "30%", lambda share: share <= 1.0, "at most 100%")
# Upper and lower case matter of a size: Kib would be kibibits.
SIZE = Quantity(
    "a size", _BYTES, "64KiB", lambda b: 1 <= b <= SIZE_MAX_BYTES, "a size from 1B to 1024GiB", any_case=False
)
SPAN = Quantity("a time", _TIMES, "20s", lambda s: s <= SPAN_MAX_S, "at most 168h")
OFFSET = Quantity("an offset", _DELAYS, "50ms", lambda s: 0 < s < DELAY_MAX_S, _OFFSETS, signed=True)
DRIFT = Quantity("a drift", {"ppm": 1e-6}, "100ppm", lambda d: 0 < d <= DRIFT_MAX, _DRIFTS, signed=True)

parse_delay, parse_loss, parse_share = DELAY.parse, LOSS.parse, SHARE.parse
parse_span, parse_offset, parse_drift = SPAN.parse, OFFSET.parse, DRIFT.parse
format_rate, format_delay, format_loss = RATE.format, DELAY.format, LOSS.format


def parse_rate(text: str) -> float:
    """Bits per second of e.g. ``"10mbit"``, from 1 kbit to 100 gbit. Raises: ValueError, as :meth:`Quantity.parse`."""
    number, unit = _split(text.strip(), RATE)  # apart from parse: only here does a wrong unit have a meaning elsewhere
    bytes_unit = _BYTES_PER_SECOND.fullmatch(unit)
    if bytes_unit:
        bits = f"{number:g}{bytes_unit[1].lower()}bit"
        raise ValueError(f"{_shown(text)} means bytes per second to tc; write {bits} for bits per second")
    return RATE.parse(text)


def parse_size(text: str) -> int:
    """Bytes of e.g. ``"64KiB"``, a whole number from 1 to 1 TiB. Raises: ValueError, as :meth:`Quantity.parse`."""
    size_bytes = SIZE.parse(text)
    if size_bytes != int(size_bytes):
        raise ValueError(f"{_shown(text)} is no whole number of bytes; write e.g. 64KiB")
    return int(size_bytes)


def format_size(size_bytes: int) -> str:
    """``"64KiB"`` of 65536: the largest unit that divides it, so nothing is rounded."""
    unit = max((u for u, factor in SIZE.units.items() if size_bytes % int(factor) == 0), key=lambda u: SIZE.units[u])
    return f"{size_bytes // int(SIZE.units[unit])}{unit}"


def _split(text: str, quantity: Quantity) -> tuple[float, str]:
    """Number and unit of ``text``. Raises: ValueError, if it is not one non-negative decimal number with a unit."""
    match, example = _QUANTITY.fullmatch(text), quantity.example
    if match is None:
        what = f"{quantity.what}: a number and a unit without a space"
        raise ValueError(f"{_shown(text)} is not {what}; write e.g. {example}")
    number = float(match["number"])
    if not math.isfinite(number):  # as float() reads hundreds of digits
        raise ValueError(f"{_shown(text)} is out of range; write e.g. {example}")
    return number, match["unit"]


def _shown(text: str) -> str:
    return repr(text if len(text) <= 40 else f"{text[:37]}...")
