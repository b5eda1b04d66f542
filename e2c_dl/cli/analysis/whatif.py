"""Command ``e2c-dl whatif``: what a run would have taken with something changed, and the re-run that checks it."""

from __future__ import annotations

import json
import math
import sys
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from e2c_dl.cli import options
from e2c_dl.cli.telling.console import open_console, stepping

if TYPE_CHECKING:
    from e2c_dl.campaign.predicting.whatif import Answer

MEASURING = "measure", "what the run's hosts and links did"
"""The step that takes longest, and what it does."""

MANY_TIMES = 10.0
"""A run that takes so many times as long is not told in percent."""


@click.command()
@options.ARCHIVE
@click.option(
    "--set", "sets", multiple=True, metavar="WHICH.WHAT=VALUE",
    help="host:fog-2.speed=2x, layer:edge.speed=1.5x, link:edge-1->cloud-1.rate=50mbit, link:edge->cloud.delay=5ms; "
    "repeatable.",
)  # fmt: skip
@click.option(
    "--without", multiple=True, metavar="host:NAME", help="A host, or layer:NAME, that does not train; repeatable."
)
@click.option("--rerun", is_flag=True, help="Also run it, and compare: simulated, or on a testbed (--on).")
@options.on(None)
@click.option("--artifacts", type=options.PATH, help="Of a re-run on a testbed, as of `deploy` [default: none].")
@click.option("--profile", type=options.PATH, help="Of a simulated re-run, as of `simulate` [default: the archive's].")
@click.option("--archive", "kept_in", type=options.PATH, help="Where the re-run is kept [default: runs/...].")
@options.as_json("Print the answer as JSON on standard output, nothing else.")
def whatif(
    archive: Path,
    sets: tuple[str, ...],
    without: tuple[str, ...],
    rerun: bool,
    testbed: str | None,
    artifacts: Path | None,
    profile: Path | None,
    kept_in: Path | None,
    as_json: bool,
    **said: str | None,
) -> None:
    """What ARCHIVE's run would have taken, had hosts and links been other than they were.

    From what was measured: by replaying the trace where ranks wait for each other; by simulating the run again where
    they do not, without a host, or where links share a line, change by design or lose segments. With the measured
    time, an interval: docs/whatif.md says when which is used, and what it means.
    """
    if not rerun and (testbed or artifacts or profile or kept_in or options.given(said)):
        raise click.UsageError("--on, --artifacts, --profile and --archive are of a re-run; add --rerun")
    from e2c_dl.archive.read import open_archive
    from e2c_dl.campaign.predicting.asked import written
    from e2c_dl.campaign.predicting.measured import MeasuredRun
    from e2c_dl.campaign.predicting.rerun import RerunRequest, check
    from e2c_dl.campaign.predicting.rerun import rerun as run_again
    from e2c_dl.campaign.predicting.scripts import ScriptRun
    from e2c_dl.campaign.predicting.whatif import predict
    from e2c_dl.diagnosis.diagnose import read_run

    if testbed is not None:
        from e2c_dl.testbeds import catalogue

        catalogue.enter(testbed)  # before anything else: it may start this program again, inside namespaces
    console, read = open_console(quiet=as_json), open_archive(archive)
    request = RerunRequest(
        testbed=testbed, options=options.given(said), artifacts=options.absolute(artifacts),
        profile=options.absolute(profile), archive=options.absolute(kept_in), command=tuple(sys.argv),
    )  # fmt: skip
    known = read_run(read)
    written(sets, without, known[2].topology.ranks)
    if known[1] is None:
        if rerun:
            raise click.UsageError("--rerun: a script of its own trained there; change the network and start it again")
        with stepping(console, *MEASURING):
            script = ScriptRun.of(read, known[0], known[2])
        answer = script.predict(script.asked(sets, without))
        _tell(answer, None, None, as_json)
        return
    if rerun:
        check(read, without, request)
    with stepping(console, *MEASURING):
        run = MeasuredRun.of(read, known)
    changed = run.asked(sets, without)
    with stepping(console, "predict", "what the run would have taken"):
        answer = predict(run, changed, console.doing)
    again = None
    try:
        again = run_again(run, changed, request, console) if rerun else None
    finally:  # what was predicted is said, whatever becomes of the re-run
        _tell(answer, again, testbed, as_json)


def _tell(answer: Answer, again: tuple[Path, float] | None, testbed: str | None, as_json: bool) -> None:
    from e2c_dl.formatting import visible

    if as_json:
        click.echo(json.dumps(_plain(answer, again), indent=1))
        return
    for line in _lines(answer, again, testbed):
        click.echo(visible(line, breaks=""))  # it names hosts of an archive, which may be a stranger's


def _plain(answer: Answer, again: tuple[Path, float] | None) -> dict[str, Any]:
    predicted = answer.prediction
    plain = {
        "scenario": answer.scenario,
        "changed": answer.changed.to_yaml(),
        "measured_s": predicted.measured_s,
        "predicted_s": predicted.predicted_s,
        "interval_s": None if math.isnan(predicted.least_s) else [predicted.least_s, predicted.most_s],
        "method": predicted.method.value,
        "samples_per_iteration": answer.samples and dict(zip(("before", "after"), answer.samples, strict=True)),
        "limitations": list(answer.limitations),
    }
    if again is None:
        return plain
    return plain | {"rerun": {"archive": str(again[0]), "run_s": again[1], "error": predicted.error(again[1])}}


def _changes(changed: Mapping[str, Any]) -> Iterator[str]:
    """What was asked, all of one element together, and of a layer element by element; a line each."""
    for host in changed.get("hosts", ()):
        yield f"{host['host']}: {host['speed']:.4g} x as fast"
    for link in changed.get("links", ()):
        values = [(name.partition("_factor"), value) for name, value in link.items() if name not in ("src", "dst")]
        said = (f"{name} {value:.4g} x" if factor else f"{name} {value}" for (name, factor, _), value in values)
        yield f"{link['src']} -> {link['dst']}: {', '.join(said)}"
    for name in changed.get("without", ()):
        yield f"{name}: left out"


def _lines(answer: Answer, again: tuple[Path, float] | None, testbed: str | None) -> list[str]:
    from e2c_dl.formatting import seconds, times

    predicted = answer.prediction
    saved = predicted.saved_s / predicted.measured_s
    longer = 1 - saved
    less = f"{times(longer)} as long" if longer >= MANY_TIMES else _told(saved, "less", "more") or "as long"
    ends = seconds(predicted.least_s), seconds(predicted.most_s)
    interval = f" from {ends[0]} to {ends[1]}," if ends[0] != ends[1] else ""
    said = [
        *(f"changed     {line}" for line in _changes(answer.changed.to_yaml())),
        f"measured    {seconds(predicted.measured_s)}",
        f"predicted   {seconds(predicted.predicted_s)}, {less};{interval} by {predicted.method.value}",
    ]
    if again is not None:
        off = predicted.error(again[1])
        how = "simulated" if testbed is None else f"on {testbed}"
        off_by = _told(off, "above it", "below it")
        predicted_as = f"the prediction is {off_by}" if off_by else "as predicted"
        said.append(f"re-run      {seconds(again[1])}, {how}; {predicted_as}; {again[0]}")
    before, after = answer.samples or (0, 0)
    if before != after:
        said.append(f"An iteration then has {after} samples instead of {before}.")
    return [*said, *answer.limitations]


def _told(share: float, above: str, below: str) -> str:
    """``5.2 % above it``; nothing of a ``share`` that would be told as zero."""
    from e2c_dl.formatting import percent

    told = percent(abs(share))
    return "" if told == percent(0.0) else f"{told} {above if share > 0 else below}"
