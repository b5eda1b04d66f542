"""Regret of the adaptive deadline against a clairvoyant's on recorded and synthetic sequences.

``python -m benchmarks.deadlines [--count N] [--seed N] [--record] [--write]``; ``--record`` records anew first.
"""

from __future__ import annotations

import json
from collections.abc import Sequence

import click
import numpy as np

from benchmarks import written
from benchmarks.deadlines.regret import regret
from benchmarks.deadlines.sequences import RECORDED, sequences

MOST_REGRET = 0.1
BAR = f"mean at most {written.percent(MOST_REGRET)}"
LINKS = ((5.0, 0.0, 1 << 13), (20.0, 0.01, 1 << 14), (100.0, 0.002, 1 << 16), (500.0, 0.0, 1 << 18))
"""Mbit/s, seconds one way, bytes of a message."""
RECORDED_MESSAGES = 1200


def record() -> None:
    """Durations between messages of the live world on emulated links, into recorded.json."""
    from benchmarks.relay import bed
    from benchmarks.transport import sides

    durations_s = []
    for rate_mbit, delay_s, size_bytes in LINKS:
        with bed.relay(rate_mbit * 1e6, delay_s, []) as hosts:
            sides.prepare(hosts)
            times_s = sides.arrivals_s(hosts, size_bytes, RECORDED_MESSAGES, None)
        durations_s.append([float(f"{each:.3g}") for each in np.diff(times_s)])
    RECORDED.write_text(json.dumps({"links": LINKS, "durations_s": durations_s}) + "\n")


def measured(count: int, seed: int) -> dict[str, list[float]]:
    """Shape and losses -> the regrets of its sequences."""
    found: dict[str, list[float]] = {}
    for name, lost, durations_s in sequences(count, seed):
        found.setdefault(f"{name}, {lost:.1%} lost", []).append(regret(durations_s))
    return found


def row(name: str, regrets: list[float]) -> str:
    """One row of the table."""
    own = np.array(regrets)
    share = np.mean(own <= MOST_REGRET)
    return f"| {name} | {len(own)} | {own.mean():.3f} | {np.quantile(own, 0.95):.3f} | {own.max():.3f} | {share:.1%} |"


@click.command()
@click.option("--count", default=1000, show_default=True, help="Sequences.")
@click.option("--seed", default=1, show_default=True, help="Of the synthetic ones.")
@click.option("--record", "anew", is_flag=True, help="Record durations anew first, on emulated links, as root.")
@written.options(count=30)
def main(count: int, seed: int, anew: bool, write: bool) -> None:
    """Measure the regret of the adaptive deadline."""
    if anew:
        record()
    found = measured(count, seed)
    everything = [each for regrets in found.values() for each in regrets]
    head = "| sequences | count | mean regret | 95th percentile | worst | at most 10 % |\n|---|---|---|---|---|---|"
    table = "\n".join([head, *(row(name, found[name]) for name in sorted(found)), row("**all**", everything)])
    click.echo(table)
    if write:
        written.write(
            "deadlines", title="Regret of the adaptive deadline", text=table, values={"regrets": found}, repeats=1,
            missed=missed(everything),
        )  # fmt: skip
    written.conclude(BAR, missed(everything))


def missed(regrets: Sequence[float]) -> list[str]:
    """What of the bar all sequences together miss."""
    mean = float(np.mean(regrets))
    return [f"mean regret {mean:.1%}"] if mean > MOST_REGRET else []


if __name__ == "__main__":
    main()
