"""Aligns clocks that are wrong on purpose: ``python -m benchmarks.clocks [--trials N] [--seconds S] [--write]``."""

from __future__ import annotations

import os
from collections.abc import Iterator, Sequence
from concurrent.futures import ProcessPoolExecutor
from contextlib import contextmanager
from dataclasses import asdict
from multiprocessing import get_context

import click
import numpy as np

from benchmarks import written
from benchmarks.clocks.trial import ASYMMETRY_NS, DATA, KINDS, STEPS, Trial, run

WITHIN_NS, WIDER_NS, SHARE = 100_000, 200_000, 0.95
BAR = (
    "100 us off at most over the management network, 100 us and half the asymmetry over a data link; the interval "
    "covers the truth and is no wider than the least round trip and 200 us; each in 95 of 100"
)
AT_ONCE = 6


@click.command()
@click.option("--trials", default=100, show_default=True, help="Of each kind.")
@click.option("--seconds", default=3.0, show_default=True, help="That each lasts, beside its first and last exchange.")
@written.options(trials=4, seconds=1.0)
def main(trials: int, seconds: float, write: bool) -> None:
    """Judge alignments against clocks whose error is known, while every core is busy."""
    jobs = [(kind, seed, seconds) for seed in range(trials) for kind in KINDS]  # kinds in turn meet the same load
    with busy_cores(), ProcessPoolExecutor(AT_ONCE, mp_context=get_context("forkserver")) as pool:
        done = list(pool.map(run, *zip(*jobs, strict=True)))
    text = table(done)
    click.echo(text)
    if write:
        written.write(
            "clocks", title="Clocks", text=text, values={"trials": [asdict(one) for one in done]}, repeats=trials,
            missed=missed(done),
        )  # fmt: skip
    written.conclude(BAR, missed(done))


@contextmanager
def busy_cores() -> Iterator[None]:
    """As many processes compute as there are cores."""
    context = get_context("fork")
    spinning = [context.Process(target=_spin, daemon=True) for _ in range(os.cpu_count() or 1)]
    for each in spinning:
        each.start()
    try:
        yield
    finally:
        for each in spinning:
            each.terminate()
        for each in spinning:
            each.join()


def _spin() -> None:
    while True:
        np.linalg.norm(np.arange(10_000.0))


def allowed_ns(one: Trial) -> int:
    """The error that the bar grants."""
    return WITHIN_NS + (ASYMMETRY_NS // 2 if one.kind == DATA else 0)


def shares(trials: Sequence[Trial]) -> dict[str, float]:
    """Of ``trials``, which are of one kind: how many hold each part of the bar, of 1."""
    held = {
        "within the bound": [one.worst_ns <= allowed_ns(one) for one in trials],
        "covered": [one.covered for one in trials],
        "narrow enough": [2 * one.uncertainty_ns <= one.least_round_trip_ns + WIDER_NS for one in trials],
    }
    if trials[0].kind == STEPS:
        held["step noticed"] = [one.steps == 1 for one in trials]
    return {what: float(np.mean(each)) for what, each in held.items()}


def missed(done: Sequence[Trial]) -> list[str]:
    """What of the bar the trials miss."""
    return [
        f"{kind}: {what} in {share:.0%}"
        for kind in KINDS
        for what, share in shares([one for one in done if one.kind == kind]).items()
        if share < SHARE
    ]


def table(done: Sequence[Trial]) -> str:
    """Markdown, a row per kind; errors in us: the median, and of 95 in 100 the worst."""
    lines = [
        "| | trials | error, median | 95 in 100 | uncertainty, median | least round trip | held | one exchange alone |",
        "|---|---:|---:|---:|---:|---:|---|---:|",
    ]
    for kind in KINDS:
        of = [one for one in done if one.kind == kind]
        errors, alone = (
            np.array([one.worst_ns for one in of]) / 1e3,
            np.array([one.one_exchange_ns for one in of]) / 1e3,
        )
        held = ", ".join(f"{what} {share:.0%}" for what, share in shares(of).items())
        lines.append(
            f"| {kind} | {len(of)} | {np.median(errors):.1f} us | {np.quantile(errors, SHARE):.1f} us "
            f"| {np.median([one.uncertainty_ns for one in of]) / 1e3:.1f} us "
            f"| {np.median([one.least_round_trip_ns for one in of]) / 1e3:.1f} us | {held} "
            f"| {np.median(alone):.1f} us |"
        )
    return "\n".join(lines)


if __name__ == "__main__":
    main()
