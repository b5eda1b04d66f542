"""Explores all orders of events of small worlds of Hop, Prague and AD-PSGD, draws many of larger ones, plants bugs.

``python -m benchmarks.schedules [--schedules N] [--seed N] [--write]``
"""

from __future__ import annotations

from collections.abc import Sequence
from concurrent.futures import ProcessPoolExecutor
from dataclasses import asdict
from time import process_time
from typing import Any

import click

from benchmarks import written
from benchmarks.schedules.cases import BUGS, DRAWN, WHOLE, found_backwards
from benchmarks.schedules.explore import Explorer, Violated
from benchmarks.schedules.random_order import RandomOrder

SCHEDULES = 100_000
BAR = (
    f"no law broken in any state, nor in {SCHEDULES:,} random schedules; every bound on how far ranks get apart is "
    "reached; every planted bug is found"
)
_BATCH = 500
_BACKWARDS_WITHIN = 2000  # schedules


def explored(number: int) -> dict[str, Any]:
    """Every state of case ``number``."""
    case, begin_s = WHOLE[number], process_time()
    explorer = Explorer(case.world, case.bounds)
    broken = ""
    try:
        found = asdict(explorer.all(lambda so_far: click.echo(f"  {so_far.states:,} states so far")))
    except Violated as violated:
        broken, found = str(violated), {}
    ahead = {f"{one} of {other}": most for (one, other), most in found.pop("ahead", {}).items()}
    reached = not case.bounds or [*ahead.values()] == [case.bounds[pair] for pair in case.bounds]
    return {
        "case": str(case), **found, "ahead": ahead, "reached": reached, "broken": broken,
        "merged": 0 if broken else explorer.ranks.unlike(), "cpu_s": round(process_time() - begin_s, 1),
    }  # fmt: skip


def drawn(number: int, first: int, count: int) -> tuple[int, int, bool, list[str], float]:
    """Case, schedules, whether a bound was reached, what was broken, CPU s: of ``count`` from seed ``first`` on."""
    case, begin_s, reached, broken = DRAWN[number], process_time(), not DRAWN[number].bounds, []
    for seed in range(first, first + count):
        order = RandomOrder(case.world, case.bounds, seed)
        try:
            order.run()
        except Violated as violated:
            broken.append(f"seed {seed}: {violated}")
        reached = reached or case.reached(order.ahead)
    return number, count, reached, broken, process_time() - begin_s


def draw(schedules: int, seed: int) -> list[dict[str, Any]]:
    """So many schedules, shared among the cases and all processors."""
    each = [
        {"case": str(case), "schedules": 0, "reached": False, "broken": [], "cpu_s": 0.0} for case in DRAWN
    ]  # fmt: skip
    share = -(-schedules // len(DRAWN))
    with ProcessPoolExecutor() as pool:
        asked = [
            pool.submit(drawn, number, seed * schedules + begin, min(_BATCH, share - begin))
            for begin in range(0, share, _BATCH)
            for number in range(len(DRAWN))
        ]
        for place, future in enumerate(asked):
            number, count, reached, broken, cpu_s = future.result()
            row: dict[str, Any] = each[number]
            row["schedules"] += count
            row["reached"] |= reached
            row["broken"] += broken
            row["cpu_s"] = round(row["cpu_s"] + cpu_s, 1)
            if place % 20 == 0:
                click.echo(f"  {sum(its['schedules'] for its in each):,} of {share * len(DRAWN):,} schedules")
    return each


def planted() -> dict[str, str]:
    """Bug -> how it was found; empty: it was not."""
    found = {}
    for name, (case, world) in BUGS.items():
        try:
            Explorer(world, case.bounds).all()
            found[name] = ""
        except Violated as violated:
            found[name] = f"{violated.law}, after {len(violated.schedule)} events"
    backwards = found_backwards(_BACKWARDS_WITHIN)
    found["groups taken backwards"] = f"{backwards[1]}, by schedule {backwards[0]}" if backwards else ""
    return found


def missed(whole: Sequence[dict[str, Any]], some: Sequence[dict[str, Any]], bugs: dict[str, str]) -> list[str]:
    """What of the bar is missed."""
    broken = [f"{row['case']}: {row['broken']}" for row in (*whole, *some) if row["broken"]]
    unreached = [f"{row['case']}: no rank got as far ahead as it may" for row in (*whole, *some) if not row["reached"]]
    drawn_in_all = sum(row["schedules"] for row in some)
    few = [f"{drawn_in_all:,} random schedules of {SCHEDULES:,}"] if drawn_in_all < SCHEDULES else []
    return [*broken, *unreached, *few, *(f"not found: {name}" for name, how in bugs.items() if not how)]


def table(whole: Sequence[dict[str, Any]], some: Sequence[dict[str, Any]], bugs: dict[str, str]) -> str:
    """Markdown."""
    lines = [
        "| every order | states | events | states of single ranks | histories tried | again, merged | longest | s |"
    ]
    lines.append("|---|---|---|---|---|---|---|---|")
    lines += [
        f"| {row['case']} | {row['states']:,} | {row['events']:,} | {row['of_ranks']:,} | {row['histories']:,} | "
        f"{row['merged']:,} | {row['deepest']} | {row['cpu_s']} |"
        for row in whole
        if not row["broken"]
    ]
    lines += ["", "| random orders | schedules | laws broken | a bound reached | s |", "|---|---|---|---|---|"]
    lines += [
        f"| {row['case']} | {row['schedules']:,} | {len(row['broken'])} | {'yes' if row['reached'] else 'no'} | "
        f"{row['cpu_s']} |"
        for row in some
    ]
    lines += [
        "",
        "| planted bug | found |",
        "|---|---|",
        *(f"| {name} | {how or 'no'} |" for name, how in bugs.items()),
    ]
    return "\n".join(lines)


@click.command()
@click.option("--schedules", default=SCHEDULES, show_default=True, help="Random ones, of all cases together.")
@click.option("--seed", default=1, show_default=True, help="Of the random ones.")
@written.options(schedules=200)
def main(schedules: int, seed: int, write: bool) -> None:
    """Explore orders of events."""
    whole = []
    for number, case in enumerate(WHOLE):
        click.echo(f"every order of {case}")
        whole.append(explored(number))
    click.echo("random orders")
    some, bugs = draw(schedules, seed), planted()
    text, missed_by = table(whole, some, bugs), missed(whole, some, bugs)
    click.echo(text)
    if write:
        values = {"every_order": whole, "random_orders": some, "planted": bugs}
        written.write(
            "schedules",
            title="Orders of events of Hop, Prague and AD-PSGD",
            text=text,
            values=values,
            repeats=1,
            missed=missed_by,
        )
    written.conclude(BAR, missed_by)


if __name__ == "__main__":
    main()
