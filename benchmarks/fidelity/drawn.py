"""Links drawn by a seed, and whether what was measured of them is as requested."""

from __future__ import annotations

import math
import random
from collections.abc import Sequence
from dataclasses import dataclass

from e2c_dl.emulation.measuring.fidelity import LinkFidelity
from e2c_dl.emulation.measuring.measured import Measured
from e2c_dl.topology import Link, Topology

SLOWEST_BPS, FASTEST_BPS, FASTEST_FAR_BPS = 1e6, 1e9, 200e6
LONGEST_S, LONGEST_FAST_S = 0.2, 0.02
MOST_LOSS = 0.05

ENDS = ("a", "b")


@dataclass(frozen=True, kw_only=True)
class Result:
    """One link, the same both ways, and what its sender measured; ``failure`` says why it could not."""

    link: Link
    measured: Measured | None = None
    failure: str = ""

    @property
    def fidelity(self) -> LinkFidelity:
        src, dst = ENDS
        asked = Topology(hosts=(), links={(src, dst): self.link, (dst, src): self.link})
        return LinkFidelity.of(src, dst, designed=asked, requested=asked, measured=self.measured)

    @property
    def within(self) -> bool:
        """A rate that is only known to be at least something says nothing: that is not within."""
        seen = self.measured
        return seen is not None and not seen.rate_is_floor and not self.fidelity.deviations()


def links(count: int, seed: int, fastest_bps: float = FASTEST_BPS) -> list[Link]:
    """Rates log-uniform; above 200 Mbit/s at most 20 ms one way and no loss; half of the others without loss."""
    draw = random.Random(seed)
    found = []
    for _ in range(count):
        rate_bps = SLOWEST_BPS * math.exp(draw.random() * math.log(fastest_bps / SLOWEST_BPS))
        far = rate_bps <= FASTEST_FAR_BPS
        delay_s = draw.random() * (LONGEST_S if far else LONGEST_FAST_S)
        loss = draw.random() * MOST_LOSS if far and draw.random() < 0.5 else 0.0
        found.append(Link(rate_bps=round(rate_bps), delay_s=round(delay_s, 4), loss=round(loss, 4)))
    return found


def table(results: Sequence[Result]) -> str:
    """Markdown, in the order of the draw."""
    lines = [
        "| asked Mbit/s | measured (95 %) | off | by | TCP "
        "| asked ms | measured (95 %) | off | asked loss | measured (95 %) | within |",
        "|---" * 11 + "|",
    ]
    return "\n".join(lines + [_row(result) for result in results])


def _row(result: Result) -> str:
    link, seen, fidelity = result.link, result.measured, result.fidelity
    rate_bps = link.rate_bps or 0.0
    if seen is None:
        return f"| {rate_bps / 1e6:.4g} | not measured: {result.failure}" + " |" * 9 + " no |"
    trip_ms, asked_ms = seen.round_trip_s * 1e3, fidelity.requested_round_trip_s * 1e3
    cells = [
        f"{rate_bps / 1e6:.4g}",
        f"{seen.rate_bps / 1e6:.4g} {_between(seen.rate_interval_bps, 1e-6)}",
        f"{seen.rate_bps / rate_bps - 1:+.2%}",
        seen.rate_from.value,
        f"{(seen.goodput_bps or 0) / 1e6:.4g}",
        f"{asked_ms:.2f}",
        f"{trip_ms:.2f} {_between(seen.round_trip_interval_s, 1e3)}",
        f"{trip_ms - asked_ms:+.2f}",
        f"{link.loss:.2%}",
        f"{seen.loss:.2%} {_between(seen.loss_interval, 100)}",
        "yes" if result.within else "**no**",
    ]
    return f"| {' | '.join(cells)} |"


def _between(interval: tuple[float, float] | None, scale: float) -> str:
    return "" if interval is None else f"({interval[0] * scale:.4g}-{interval[1] * scale:.4g})"
