"""Numbers as people read them: three digits, a unit with a space before it; ``None`` and nonsense become a dash."""

from __future__ import annotations

import math
import unicodedata

DASH = "–"
UNLIMITED = "unlimited"


def seconds(value: float | None) -> str:
    """``0.0123`` -> ``12.3 ms``, ``52.1`` -> ``52.1 s``, ``3700`` -> ``1 h 01 min``."""
    if value is None or not math.isfinite(value):
        return DASH  # a table says it so where nothing was measured
    size = abs(value)
    if size >= 3600:
        return f"{'-' if value < 0 else ''}{size // 3600:.0f} h {size % 3600 // 60:02.0f} min"
    if size >= 1 - 0.5e-3 or size == 0:  # what rounds to 1.00 s is not 1000 ms, and nothing is 0 s, not 0 µs
        return f"{_digits(value)} s"
    return f"{_digits(value * 1e3)} ms" if size >= 1e-3 - 0.5e-6 else f"{_digits(value * 1e6)} µs"


def rate(value_bps: float | None) -> str:
    """``40e6`` -> ``40.0 Mbit/s``."""
    return _scaled(value_bps, 1000.0, ("bit/s", "kbit/s", "Mbit/s", "Gbit/s"))


def limit(rate_bps: float | None) -> str:
    """The rate that a link is held to; the one word, wherever it is told, for one that is held to none."""
    return UNLIMITED if rate_bps is None else rate(rate_bps)


def size(value_bytes: float | None) -> str:
    """``65536`` -> ``64.0 KiB``."""
    return _scaled(value_bytes, 1024.0, ("B", "KiB", "MiB", "GiB", "TiB"))


def percent(fraction: float | None) -> str:
    """``0.213`` -> ``21.3 %``."""
    return DASH if fraction is None or not math.isfinite(fraction) else f"{fraction * 100:.1f} %"


def times(factor: float | None) -> str:
    """``3`` -> ``3.0 ×``."""
    return DASH if factor is None or not math.isfinite(factor) else f"{factor:.1f} ×"


def count(number: int, one: str, many: str | None = None) -> str:
    """``1 link``, ``2 links``."""
    return f"{number} {one if number == 1 else many or one + 's'}"


def visible(text: str, breaks: str = "\n\t") -> str:
    """``text`` for a terminal, which does what control characters say: they are spelled out, but for ``breaks``.

    For whatever others may have written: archives, logs of workers, names of files.

    >>> visible("worker \\x1b[2Jgone")
    'worker \\\\x1b[2Jgone'
    """
    if text.isprintable():
        return text
    return "".join(each if _harmless(each) or each in breaks else repr(each)[1:-1] for each in text)


def _harmless(character: str) -> bool:
    return character.isprintable() or unicodedata.category(character) == "Zs"  # spaces that do not break


def _scaled(value: float | None, step: float, units: tuple[str, ...]) -> str:
    if value is None or not math.isfinite(value):
        return DASH
    index = 0
    while abs(value) >= step - 0.5 and index < len(units) - 1:
        value /= step
        index += 1
    return f"{_digits(value)} {units[index]}"


def _digits(value: float) -> str:
    """Three digits: 1.23, 12.3, 123; a whole zero."""
    shown = abs(value)
    # The bounds are where rounding would show a fourth digit.
    return f"{value:.2f}" if 0 < shown < 9.995 else f"{value:.1f}" if 0 < shown < 99.95 else f"{value:.0f}"
