"""Draws runs with and without departures, has each diagnosed, and judges the reports; exit status 1 if a bar is missed.

``python -m benchmarks.diagnosis [--seed S] [--runs N] [--only KIND] [--live N] [--into FILE] [--run N --keep DIR]
[--together] [--write]``
"""

from __future__ import annotations

import json
import os
from collections.abc import Iterator, Sequence
from pathlib import Path

import click

from benchmarks import written
from benchmarks.diagnosis import bars, campaign
from benchmarks.diagnosis.drawn import drawn
from benchmarks.diagnosis.injections import What
from benchmarks.diagnosis.judging import Outcome
from benchmarks.diagnosis.table import described, text
from benchmarks.diagnosis.truth import truth
from e2c_dl.codec import convert

HELD_OUT = 85
KEPT = Path("build") / "diagnosis.jsonl"
TELL_EVERY = 25  # runs
BAR = (
    f"{written.percent(bars.RIGHT_LARGE)} exactly right at x{bars.LARGE:g}, "
    f"false alarms at most {written.percent(bars.FALSE_ALARMS)}, and more"
)
KINDS = (*(what.value for what in What), "none")


@click.command()
@click.option("--runs", default=bars.LEAST_RUNS, show_default=True, help="Material runs, and as many clean ones.")
@click.option("--seed", default=HELD_OUT, show_default=True, help="What they are drawn by; odd ones are held out.")
@click.option("--run", "number", type=int, help="This run of the campaign alone, told in full.")
@click.option("--only", multiple=True, type=click.Choice(KINDS), help="Runs that meet one of these, so many in all.")
@click.option("--lanes", default=2, show_default=True, help="Processes side by side.")
@click.option(
    "--keep", type=click.Path(path_type=Path), help="Folder for the archive of --run, or of live runs that are wrong."
)
@click.option(
    "--into", type=click.Path(path_type=Path), default=KEPT, show_default=True,
    help="Where outcomes are kept, run by run; those that it has of this code are not made again.",
)  # fmt: skip
@click.option("--live", type=int, help="Instead, so many runs on this machine's namespaces, as root.")
@click.option("--together", is_flag=True, help="No runs: the bars over what was written of both worlds.")
@written.options(runs=4)
def main(
    *, runs: int, seed: int, number: int | None, only: tuple[str, ...], lanes: int, keep: Path | None,
    into: Path, live: int | None, together: bool, write: bool,
) -> None:  # fmt: skip
    """Is the diagnosis exactly right, on runs whose truth is known?"""
    if together:
        if write or live is not None or number is not None:
            raise click.UsageError("--together runs nothing and writes nothing; leave out --write, --live and --run")
        both_worlds()
        return
    if number is not None:
        one_run(seed, number, keep, live is not None)
        return
    done: list[Outcome] = []
    known = campaign.Judged(into, live=live is not None)
    missed = ["it was ended before its first run"]
    try:
        for outcome in (
            campaign.campaign(seed, runs, lanes, only, known)
            if live is None
            else live_campaign(seed, live, known, keep)
        ):
            done.append(outcome)
            if len(done) % TELL_EVERY == 0:
                click.echo(f"{len(done)} runs, {sum(one.right for one in done)} exactly right", err=True)
            if not outcome.right:
                click.echo("\n".join(described(outcome)), err=True)
            if live is not None:  # each takes a minute: what is there is kept, whatever comes
                missed = told(seed, done, live=True, write=write)
    except KeyboardInterrupt:
        click.echo("ended early", err=True)
    if done and live is None:
        missed = told(seed, done, live=False, write=write)
    click.echo(text(done, bars.bars(done, simulated=live is None)))
    written.conclude(BAR, missed)


def both_worlds() -> None:
    """The bars over what was written of simulated and of live runs, of which no predictions are judged.

    Raises: ClickException, if one of the results is missing.
    """
    found: list[Outcome] = []
    for name in ("diagnosis", "diagnosis-live"):
        path = written.RESULTS / f"{name}.json"
        if not path.is_file():
            raise click.ClickException(f"{path}: there is no such result; write it first (--write, --live 30 --write)")
        facts = json.loads(path.read_text(encoding="utf-8"))
        runs = [convert(each, Outcome, str(path), remedy="write it anew") for each in facts["runs"]]
        click.echo(f"{path.name}: {len(runs)} runs of seed {facts['seed']}, at {facts['commit']}")
        found += runs
    of_all = bars.bars(found)
    click.echo(f"\n{text(found, of_all)}")
    written.conclude(BAR, bars.missed(found, of_all))


def told(seed: int, done: Sequence[Outcome], *, live: bool, write: bool) -> list[str]:
    """What of the bar is missed by the runs that are ``done``; their results are written if asked for."""
    found = bars.bars(done, simulated=not live)
    missed = bars.missed(done, found, live=live)
    if write:
        took_s = sum(one.seconds for one in done)
        said = f"{len(done)} runs of seed {seed}, {took_s:.0f} s in all.\n\n{text(done, found)}"
        values = {"seed": seed, "runs": [one.plain() for one in done]}
        title = "Diagnosis beside the truth" + (", live" if live else "")
        written.write(
            "diagnosis", title=title, text=said, values=values, repeats=1, missed=missed, part="live" if live else ""
        )
    return missed


def live_campaign(seed: int, runs: int, known: campaign.Judged, keep: Path | None) -> Iterator[Outcome]:
    """Live runs. Raises: ClickException, unless root asks for them."""
    from benchmarks.diagnosis.live import campaign as live_runs  # what deploys is not needed to simulate

    if os.geteuid() != 0:
        raise click.ClickException("diagnosis --live: hosts are namespaces of this machine: run it as root")
    return live_runs(seed, runs, known, keep)


def one_run(seed: int, number: int, keep: Path | None, live: bool) -> None:
    """Judge one run and say all of it; what its report says goes to ``keep``, if there is one."""
    if live:
        from benchmarks.diagnosis.live import judged_run

        outcome = judged_run(seed, number, keep)
    else:
        one = drawn(seed, number)
        told = truth(one)
        outcome = campaign.of(one, told)
        if keep is not None:
            campaign.keep(one, told, keep)
            click.echo(f"report.json and trace: {keep}")
    click.echo(json.dumps(outcome.plain(), indent=1))
    click.echo("\n".join(described(outcome)))
    if not outcome.right:
        raise click.ClickException("this run is not right")


if __name__ == "__main__":
    main()
