"""Ratios that papers tell, beside those of the trials: of times to the target, medians over seeds.

Models, data and machines are others, so that no time is compared; a ratio of two systems in alike environments is. The
figures are those of the papers' abstracts.
"""

from __future__ import annotations

import math
from collections.abc import Iterable
from dataclasses import dataclass

from benchmarks.systems import table
from benchmarks.systems.tables import Results, seconds


@dataclass(frozen=True, kw_only=True)
class Ratio:
    """How many times as fast ``system`` is as ``over`` in ``environment``; ``published``: in the paper's words."""

    system: str
    over: str
    environment: str
    published: str


RATIOS: tuple[Ratio, ...] = (
    *(
        Ratio(system="DLion", over=over, environment=environment, published="up to 2 (CPU cluster, HPDC'21)")
        for environment in ("compute", "network", "compute and network")
        for over in (table.FULL_EXCHANGE, "Ako", "Gaia", "Hop")
    ),
    *(
        Ratio(system="Gaia", over=over, environment=environment, published="1.8 to 53.5 (11 data centres, NSDI'17)")
        for environment in ("WAN 15x", "WAN 60x")
        for over in (table.FULL_EXCHANGE, "parameter server")
    ),
    Ratio(system="Prague", over="all-reduce", environment="16 workers", published="1.2 (ASPLOS'20)"),
    Ratio(system="Prague", over="parameter server", environment="16 workers", published="5.3 (ASPLOS'20)"),
    Ratio(system="Prague", over="AD-PSGD", environment="16 workers", published="3.7 (ASPLOS'20)"),
    *(
        Ratio(system="Prague", over="all-reduce", environment=f"16, one {times}x slower", published="4.4 (ASPLOS'20)")
        for times in (2, 5)
    ),
    *(
        Ratio(system="Hop", over=over, environment=environment, published="no figure in the abstract (ASPLOS'19)")
        for environment in ("16, 6x slower by chance", "16, one 4x slower")
        for over in ("all-reduce", "parameter server")
    ),
)  # fmt: skip


def beside(results: Results, ratios: Iterable[Ratio] = RATIOS) -> str:
    """A row for each ratio of which both sides were tried; empty if there is none."""
    lines = [
        f"| {each.system} over {each.over} | {each.environment} | {measured} | {each.published} |"
        for each in ratios if (measured := _measured(results, each))
    ]  # fmt: skip
    head = ["| times as fast | environment | here | published |", "|---|---|---|---|"]
    return "\n".join([*head, *lines]) if lines else ""


def _measured(results: Results, asked: Ratio) -> str:
    own, other = (results.median_s(name, asked.environment) for name in (asked.system, asked.over))
    if own is None or other is None:
        return ""
    if math.isinf(own) or math.isinf(other):
        return f"- ({seconds(own)} s, {seconds(other)} s)"
    return f"{other / own:.2g} ({seconds(own)} s, {seconds(other)} s)"
