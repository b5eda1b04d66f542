"""Results of a campaign as Markdown: how many runs held, by kind of fault and testbed, and every failure by name."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from benchmarks.faults.kinds import KINDS, TESTBEDS

Result = Mapping[str, Any]


def held(results: Iterable[Result]) -> int:
    """How many runs have nothing wrong."""
    return sum(not one["wrong"] for one in results)


def table(results: Sequence[Result]) -> str:
    """A row per kind, a column per testbed: runs that held, of those that met it. Runs with two faults count twice."""
    met: Counter[tuple[str, str]] = Counter()
    well: Counter[tuple[str, str]] = Counter()
    hit: Counter[str] = Counter()
    for one in results:
        for fault in one["faults"]:
            met[fault["kind"], one["testbed"]] += 1
            well[fault["kind"], one["testbed"]] += not one["wrong"]
            hit[fault["kind"]] += fault["kind"] in one["hits"]
    lines = [f"| fault | {' | '.join(TESTBEDS)} | in force |", f"|---|{'---:|' * len(TESTBEDS)}---:|"]
    for kind in KINDS:
        cells = [f"{well[kind, bed]} of {met[kind, bed]}" if met[kind, bed] else "" for bed in TESTBEDS]
        if any(cells):
            total = sum(met[kind, bed] for bed in TESTBEDS)
            lines.append(f"| {kind} | {' | '.join(cells)} | {hit[kind]} of {total} |")
    return "\n".join(lines)


def failures(results: Iterable[Result]) -> str:
    """What was wrong, run by run, with what repeats it."""
    said = [line for one in results if one["wrong"] for line in described(one)]
    return "\n".join(said) or "None."


def described(one: Result) -> list[str]:
    """One run that did not hold, a bullet and what is wrong below it."""
    met = "; ".join(
        f"{fault['kind']} at {fault['host']} {fault['after_s']:.2f} s into {fault['stage']}" for fault in one["faults"]
    )
    hits = "; ".join(one["hits"].values()) or "nothing was hit"
    head = f"* `--seed {one['seed']} --run {one['number']}`, {one['testbed']}: {met} ({hits})"
    return [head, *(f"  * {sentence}" for sentence in one["wrong"])]
