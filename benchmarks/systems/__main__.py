"""Every strategy side by side: ``python -m benchmarks.systems [--write]``; stopped, it goes on where it was."""

from __future__ import annotations

import os
from collections.abc import Sequence
from dataclasses import asdict
from pathlib import Path

import click

from benchmarks import written
from benchmarks.systems import bar, beside, environments, figures, live, published, table, tables
from benchmarks.systems.campaign import PARTS, Done, asked_for, made, seconds_left
from benchmarks.systems.earlier import Earlier
from benchmarks.systems.tables import Results
from benchmarks.systems.trial import AFTER_S, Ran
from e2c_dl.campaign.predicting.advice.workers import most_workers

BAR = f"{bar.SAID}; live, systems come in the order of the virtual world by their accuracy after 20 s"
SIMULATED = Path("build") / "systems.jsonl"


@click.command()
@click.option("--seeds", default=5, show_default=True, help="Seeds, 1 to this, of each system in each environment.")
@click.option("--part", "parts", multiple=True, type=click.Choice([*PARTS, live.PART]),
              help="This part alone; repeatable [default: all; live as root only].")  # fmt: skip
@click.option("--system", "only", multiple=True, help="This system alone, as the table calls it; repeatable.")
@click.option("--environment", "where", multiple=True, type=click.Choice(list(environments.ALL)),
              help="This environment alone; repeatable.")  # fmt: skip
@click.option("--workers", type=click.IntRange(1), help="Processes at once [default: one per processor].")
@click.option("--scheduler", help="Of a Dask cluster whose workers have this tree, instead: tcp://10.0.0.1:8786.")
@click.option("--into", type=click.Path(path_type=Path), default=SIMULATED, show_default=True,
              help="Trials that are done; remove it to begin anew.")  # fmt: skip
@click.option(
    "--made", "only_made", is_flag=True, help="Make no trials: what --into has of those that were asked for is told."
)
@click.option(
    "--earlier",
    type=click.Path(path_type=Path, exists=True, dir_okay=False),
    help="A systems.json whose trials count, too, where those that were made again are the same to the bit.",
)
@written.options(seeds=1, parts=["wan"], only=["local SGD, H = 4"])
def main(
    *, seeds: int, parts: Sequence[str], only: Sequence[str], where: Sequence[str], workers: int | None,
    scheduler: str | None, into: Path, only_made: bool, earlier: Path | None, write: bool,
) -> None:  # fmt: skip
    """Time to a fixed accuracy, accuracy after a fixed time, and bytes: real gradients under a virtual clock."""
    chosen = parts or [*PARTS, *([live.PART] if os.geteuid() == 0 and not (where or only_made) else [])]
    if unknown := set(only) - {each.name for each in table.systems()}:
        there = ", ".join(each.name for each in table.systems())
        raise click.UsageError(f"--system {min(unknown)!r}: there is none of that name; write one of {there}")
    if earlier and not only_made:
        raise click.UsageError("--earlier says which trials need not be made: say --made, too")
    if live.PART in chosen and os.geteuid():
        raise click.UsageError("--part live brings hosts up on this machine, as root; leave it out, or be root")
    trials, done = asked_for([each for each in chosen if each in PARTS], seeds, only, where), Done(into)
    stands = None if earlier is None else Earlier(earlier, trials, done.trials)
    if only_made:
        trials = [asked for asked in trials if asked in done.trials or (stands and asked in stands.trials)]
    elif trials:
        announce(trials, done, workers or most_workers())
        made(trials, done, workers=workers, scheduler=scheduler, tell=tell)
    there = {**done.trials, **(stands.trials if stands else {})}
    came = [there[asked] for asked in trials]
    results, small = Results(came), trained_live(into, only) if live.PART in chosen else None
    sections = [
        *([stands.said(len(came))] if stands else []),
        *([page(results)] if trials else []),
        *([f"## Live\n\n{beside.table(small)}"] if small else []),
    ]
    click.echo("\n" + "\n\n".join(sections))
    if write:
        drawn = [*figures.draw(results, written.RESULTS), *([beside.figure(small, written.RESULTS)] if small else [])]
        values = {
            "systems": [asdict(each) for each in results.tried()],
            "trials": [stands.recorded(each) if stands else tables.recorded(each) for each in came],
            "live": {} if small is None else small.recorded(),
        }
        written.write(
            "systems", title="The systems side by side", values=values, repeats=results.fewest_seeds or 1,
            text="\n\n".join([*sections, *(f"![]({each.name})" for each in drawn)]),
            part="" if trials else live.PART, missed=missed(results, small),
        )  # fmt: skip
    written.conclude(BAR, missed(results, small))


def trained_live(into: Path, only: Sequence[str]) -> live.Beside:
    """What the small environment has, all of it made."""
    small = live.Beside(into, only)
    about_s = sum(live.TOOK_S[world] for _, world in small.left)
    click.echo(f"live: {len(small.left)} runs to do, about {minutes(about_s)}")
    small.made(tell_live)
    return small


def tell_live(system: str, world: str, came: Ran) -> None:
    """A line for a run of the small environment that has ended."""
    found = came.problem or f"{came.accuracy:.0%} after {AFTER_S:g} s"
    click.echo(f"{system}, {world}: {found} ({minutes(came.took_s)})")


def announce(trials: Sequence[object], done: Done, workers: int) -> None:
    """Say what is to do, and how long it will take, before it begins."""
    left = [asked for asked in trials if asked not in done.trials]
    about = seconds_left(left, done, workers)
    click.echo(f"{len(trials)} trials, {len(trials) - len(left)} done; the others take about {minutes(about)}")
    if done.of_other_code:
        click.echo(f"{done.of_other_code} more were made by other code or settings, and do not count")


def tell(came: Ran, left: int, left_s: float) -> None:
    """A line for a trial that has ended."""
    asked = came.asked
    found = came.problem or f"{came.accuracy:.0%} after 20 s, the target after {tables.seconds(came.reached_s)} s"
    click.echo(f"{asked.system}, {asked.environment}, seed {asked.seed}: {found}; {left} left, {minutes(left_s)}")


def minutes(seconds: float) -> str:
    """A length of time for people."""
    return f"{seconds:.0f} s" if seconds < 90 else f"{seconds / 60:.0f} min"


def page(results: Results) -> str:
    """All tables that these results are enough for."""
    sections = [tables.settings(results)]
    for title, first, chosen in (
        ("DLion's environments", (), environments.DLION),
        ("Data centres", (environments.HOMOGENEOUS,), environments.WAN),
        ("Bandwidth", (), environments.BANDWIDTHS),
        ("Hop's and Prague's 16 workers", (), environments.PAPERS),
    ):
        if any(results.systems(each.name, parts=True) for each in chosen):
            those = results.tried_in(chosen)
            tried = [each for each in (*first, *chosen) if those.systems(each.name, parts=True)]
            found = [
                tables.comparison(those, tried), tables.seeds(those, tried), tables.apart(those, tried),
                tables.evidence(those, tried),
            ]  # fmt: skip
            sections += [f"## {title}", *found]
    if ratios := published.beside(results):
        sections += ["## Beside published ratios", ratios]
    if why := bar.traced(results):
        sections += ["## Where the bar is missed", why]
    problems = results.problems()
    return "\n\n".join([*sections, *(["## Failed", "\n".join(f"* {each}" for each in problems)] if problems else [])])


def missed(results: Results, small: live.Beside | None = None) -> list[str]:
    """What of the bar does not hold, a sentence each; ``small``: the live side, if it was asked for."""
    return [*bar.missed(results), *(beside.missed(small) if small else [])]


if __name__ == "__main__":
    main()
