"""Whose messages passed a bottleneck: what each of its links carried, and its part of all of it.

::

    links of the bottleneck      a -> b: 40 %    c -> b: 35 %    a -> d: 15 %    2 more: 10 %
    that carried anything        '---------- those that carried most ---------'
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence

from e2c_dl import formatting
from e2c_dl.diagnosis.carried import Carried, Observed, together
from e2c_dl.report.changing import ARROW
from e2c_dl.topology import Bottleneck

MOST = 4  # links that are told apart


def of(shared: Bottleneck, seen: Observed) -> Mapping[str, Carried]:
    """What the links of ``shared`` carried, by name; beyond MOST, those that carried least are one."""
    found = {pair: seen.carried[pair] for pair in shared.links if pair in seen.carried}
    most = sorted(found, key=lambda pair: -found[pair].bits.sum())[:MOST]
    made = {ARROW.join(pair): found[pair] for pair in sorted(most)}
    others = [carried for pair, carried in found.items() if pair not in most]
    return {**made, f"{len(others)} more": together(others)} if others else made


def sentences(bottlenecks: Iterable[Bottleneck], seen: Observed) -> Sequence[str]:
    """One per bottleneck: what it carried, and whose that was."""
    return tuple(f"bottleneck {shared.name}: {_said(of(shared, seen), seen.end_s)}" for shared in bottlenecks)


def _said(links: Mapping[str, Carried], end_s: float) -> str:
    bits = {name: float(carried.bits.sum()) for name, carried in links.items()}
    total = sum(bits.values())
    if not total:
        return "training sent nothing through it"
    parts = ", ".join(f"{formatting.percent(own / total)} {name}" for name, own in bits.items())
    return f"carried {formatting.rate(total / end_s)} in the mean, of which {parts}"
