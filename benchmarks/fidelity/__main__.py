"""Draws links, has each measured thoroughly on a back end, prints requested beside measured and how many are within."""

from __future__ import annotations

import json
from collections.abc import Iterator, Sequence

import click
import msgspec

from benchmarks import written
from benchmarks.fidelity import drawn, relayed
from benchmarks.fidelity.drawn import Result
from e2c_dl import typed
from e2c_dl.emulation.link_values import link_from_json, link_to_json
from e2c_dl.emulation.measuring.fidelity import (
    LOSS_TOLERANCE_THOROUGH,
    RATE_TOLERANCE,
    ROUND_TRIP_TOLERANCE,
    ROUND_TRIP_TOLERANCE_S,
)
from e2c_dl.emulation.measuring.measured import VERDICT_CONFIDENCE, Measured
from e2c_dl.topology import Link

BAR = (
    f"each within {written.percent(RATE_TOLERANCE)} in rate, max({ROUND_TRIP_TOLERANCE_S * 1e3:g} ms, "
    f"{written.percent(ROUND_TRIP_TOLERANCE)}) in round trip, {LOSS_TOLERANCE_THOROUGH * 100:g} points or the "
    f"{written.percent(VERDICT_CONFIDENCE)} interval in loss"
)
OURS = ("relay", "tc")
"""Who is held to the bar; EnOSlib's links are measured beside them."""
FASTEST_BPS = {"relay": drawn.FASTEST_BPS, "tc": drawn.FASTEST_FAR_BPS, "enoslib": drawn.FASTEST_FAR_BPS}


def measured(back_end: str, links: Sequence[Link]) -> Iterator[Result]:
    """One result per link, in order, as they come."""
    if back_end == "relay":
        return relayed.results(links)
    from benchmarks.fidelity import in_uml

    return in_uml.results(links, back_end)


@click.command()
@click.option(
    "--on",
    "back_ends",
    multiple=True,
    type=click.Choice(list(FASTEST_BPS)),
    help="Repeatable [default: all].",
)
@click.option("--links", default=40, show_default=True, help="How many are drawn for each back end.")
@click.option("--seed", default=1, show_default=True)
@click.option("--resume", is_flag=True, help="Keep what results/fidelity.json has of the same links; measure the rest.")
@written.options(back_ends=["relay"], links=1)
def main(back_ends: tuple[str, ...], links: int, seed: int, resume: bool, write: bool) -> None:
    """About 12 seconds per link. The relay needs root, tc and EnOSlib's NetemHTB the package user-mode-linux."""
    chosen = back_ends or tuple(FASTEST_BPS)
    kept = _read() if resume or write else {}
    asked = {name: drawn.links(links, seed, FASTEST_BPS[name]) for name in chosen}
    found = {
        name: {result.link: result for result in kept.get(name, []) if resume and result.measured} for name in asked
    }
    streams = {name: measured(name, [link for link in own if link not in found[name]]) for name, own in asked.items()}
    for name, result in _in_turns(streams):
        found[name][result.link] = result
        click.echo(f"{name} {drawn.table([result]).splitlines()[-1]}", err=True)
        kept[name] = [found[name][link] for link in asked[name] if link in found[name]]
        if write:
            _write(kept)
    kept |= {name: [found[name][link] for link in own if link in found[name]] for name, own in asked.items()}
    if write:
        _write(kept)
    click.echo(_text({name: kept[name] for name in chosen}))
    written.conclude(BAR, missed(kept))


def missed(every: dict[str, list[Result]]) -> list[str]:
    """How many links of this project's back ends are not within, and which of these were not measured."""
    outside = {name: sum(not result.within for result in every.get(name, ())) for name in OURS}
    wrong = [f"{name}: {count} of {len(every[name])} not within" for name, count in outside.items() if count]
    return wrong + [f"{name}: not measured" for name in OURS if not every.get(name)]


def _in_turns(streams: dict[str, Iterator[Result]]) -> Iterator[tuple[str, Result]]:
    """What comes of all of them, one of each at a time: whatever else the machine does meets them alike."""
    while streams:
        for name in tuple(streams):
            result = next(streams[name], None)
            if result is None:
                del streams[name]
            else:
                yield name, result


def _text(every: dict[str, list[Result]]) -> str:
    parts = []
    for name, results in every.items():
        within = sum(result.within for result in results)
        parts.append(f"## {name}: {within} of {len(results)} within\n\n{drawn.table(results)}\n")
    return "\n".join(parts)


def _read() -> dict[str, list[Result]]:
    path = written.RESULTS / "fidelity.json"
    if not path.is_file():
        return {}
    rows = json.loads(path.read_text(encoding="utf-8"))["results"]
    return {name: [_from_json(row) for row in its] for name, its in rows.items()}


def _from_json(row: dict[str, object]) -> Result:
    seen = row["measured"]
    measured = typed.convert(seen, Measured) if isinstance(seen, dict) else None
    return Result(link=link_from_json(row["link"]), measured=measured, failure=str(row["failure"]))


def _write(every: dict[str, list[Result]]) -> None:
    rows = {
        name: [
            {
                "link": link_to_json(result.link),
                "measured": msgspec.to_builtins(result.measured),
                "failure": result.failure,
                "within": result.within,
            }
            for result in results
        ]
        for name, results in every.items()
    }
    written.write(
        "fidelity", title="Links asked for and measured", text=_text(every), values={"results": rows}, repeats=1,
        missed=missed(every),
    )  # fmt: skip


if __name__ == "__main__":
    main()
