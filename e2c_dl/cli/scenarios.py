"""Commands ``e2c-dl init | check | strategies``: scenarios, and what can stand in one, before anything runs."""

from __future__ import annotations

import json
import math
import sys
from pathlib import Path
from typing import TYPE_CHECKING

import click

from e2c_dl.cli import options

if TYPE_CHECKING:
    from e2c_dl.drivers.virtual.foreseen import LinkUse
    from e2c_dl.scenario.model import Scenario, Training

_MOST_ROWS, _MOST_UNUSED = 12, 6


def _experiments(_ctx: click.Context, _parameter: click.Parameter, begun: str) -> list[str]:
    """For shells: names of experiments that begin so."""
    from e2c_dl.scenario.folder import copies

    return [name for name in copies.examples() if name.startswith(begun)]


@click.command()
@options.SCENARIO
@click.option(
    "--example", metavar="NAME", shell_complete=_experiments,
    help="A copy of one of the experiments instead, such as first-light.",
)  # fmt: skip
@options.as_json("Print as JSON: scenario, written, a list of files.")
def init(scenario: Path, example: str | None, as_json: bool) -> None:
    """Write a commented scenario into the new folder SCENARIO: edit it, `check` it, `deploy` it.

    A scenario is code: what its workflow says runs on the hosts and on this machine, with your rights.
    """
    from e2c_dl.scenario.folder import copies

    written = copies.init(scenario) if example is None else copies.example(example, scenario)
    if as_json:
        click.echo(json.dumps({"scenario": str(scenario), "written": [str(path) for path in written]}, indent=1))
        return
    for path in written:
        click.echo(path)
    click.echo(f"next: edit these files, then `e2c-dl check {scenario}`")


@click.command()
@options.SCENARIO
@click.option(
    "--on", "testbed", default="local", show_default=True, shell_complete=options.testbeds,
    help="Also check what this testbed can honour.",
)  # fmt: skip
@options.as_json("Print what was found as JSON: valid, problems, remarks, hosts, training, links used and unused.")
def check(scenario: Path, testbed: str, as_json: bool) -> None:
    """Read and validate SCENARIO as a whole; one line per problem, naming file, key and remedy.

    Says what training will use: how much each link carries per iteration, once a profile tells the model's size, and
    which links it leaves alone. Remarks are no problems: what they are about holds as it stands.
    """
    from e2c_dl.formatting import count
    from e2c_dl.scenario.load import load, local_problems, problems
    from e2c_dl.testbeds import catalogue

    catalogue.check_name(testbed)  # first: a wrong name would be found only after the scenario's own problems
    found = [*problems(scenario)]
    if not found:  # what a testbed lacks matters once the scenario is sound
        found += local_problems(load(scenario), elsewhere=catalogue.is_elsewhere(testbed))
    if as_json and found:
        click.echo(json.dumps({"valid": False, "problems": [str(problem) for problem in found]}, indent=1))
    for problem in () if as_json else found:
        click.echo(f"e2c-dl: {problem}", err=True)
    if found:
        sys.exit(2)  # wrong input, nothing was started: as deploy would say
    loaded = load(scenario)
    reserves = catalogue.foreseen(testbed, loaded)
    use = None if loaded.trained is None else _use(loaded)  # of a program of the user's, nobody knows
    if as_json:
        told = {"valid": not reserves.problems, "problems": list(reserves.problems), "reserves": list(reserves.lines)}
        click.echo(json.dumps(_as_json(loaded, use) | told, indent=1))
        sys.exit(2 if reserves.problems else 0)
    for remark in loaded.remarks:  # on standard output: no problems
        click.secho(f"remark: {remark}", dim=True)
    topology = loaded.topology
    layers = list(dict.fromkeys(host.layer for host in topology.hosts))  # in order, which a set would lose
    training, ranks = loaded.trained, topology.ranks
    how = (
        f"{loaded.program} on {count(len(ranks), 'host')}, by a program of its own"
        if training is None
        else f"{training.strategy} over {len(ranks)} ranks for {training.ends.described()}{_compressed(training)}"
    )
    click.echo(
        f"{loaded.name}: valid; {count(len(topology.hosts), 'host')} in {', '.join(layers)}; "
        f"{count(len(topology.links), 'link')}; {how}"
    )
    for line in reserves.lines:
        click.echo(f"{testbed}: {line}")
    if use is not None:
        _tell_use(loaded, use)
    for line in reserves.problems:  # of hosts elsewhere: the scenario itself is sound
        click.echo(f"e2c-dl: {line}", err=True)
    if reserves.problems:
        sys.exit(2)


def _compressed(training: Training) -> str:
    from e2c_dl.strategies.compression import NONE

    return "" if training.compression == NONE else f", what it sends as {training.compression}"


def _as_json(scenario: Scenario, use: LinkUse | None) -> dict[str, object]:
    return {
        "remarks": list(scenario.remarks), "name": scenario.name,
        "hosts": [{"name": host.name, "layer": host.layer, "rank": host.rank} for host in scenario.topology.hosts],
        "program": scenario.program, "training": None if scenario.trained is None else scenario.trained.recorded(),
        "links_used": None if use is None else [
            {"src": src, "dst": dst, "bytes_per_iteration": None if use.unknown else nbytes,
             "rate_bps": scenario.topology.link(src, dst).rate_bps}
            for (src, dst), nbytes in use.bytes_per_iteration.items()
        ],
        "links_unused": None if use is None else [{"src": src, "dst": dst} for src, dst in use.unused],
    }  # fmt: skip


def _use(scenario: Scenario) -> LinkUse:
    from e2c_dl.drivers.live.stored import read_profile
    from e2c_dl.drivers.virtual.foreseen import link_use
    from e2c_dl.scenario.workflow import PROFILE

    file = scenario.path / PROFILE
    return link_use(scenario, read_profile(file, scenario) if file.is_file() else None)


def _tell_use(scenario: Scenario, use: LinkUse) -> None:
    """Which links training will use, for what, and which of those that were given a quality it will not."""
    from e2c_dl.formatting import count, limit, seconds, size

    links = scenario.topology.links
    rows = [(pair, nbytes, links[pair].rate_bps if pair in links else None)
            for pair, nbytes in use.bytes_per_iteration.items()]  # fmt: skip
    rows.sort(key=lambda row: (-row[1] / (row[2] or math.inf), row[0]))  # those that take longest first
    click.echo(f"training will use {count(len(rows), 'link')}:")
    for (src, dst), nbytes, rate_bps in rows[:_MOST_ROWS]:
        each = "" if use.unknown else f"  {size(nbytes)} per iteration"
        least = "" if use.unknown or not rate_bps else f", at least {seconds(8 * nbytes / rate_bps)}"
        click.echo(f"  {src} -> {dst}{each}{least}, {'' if rate_bps is None else 'at '}{limit(rate_bps)}")
    if len(rows) > _MOST_ROWS:
        click.echo(f"  and {len(rows) - _MOST_ROWS} more, which take no longer than these")
    if use.unknown:
        click.echo(use.unknown)
    if use.unused:
        shown = ", ".join(f"{src} -> {dst}" for src, dst in use.unused[:_MOST_UNUSED])
        more = f" and {len(use.unused) - _MOST_UNUSED} more" if len(use.unused) > _MOST_UNUSED else ""
        click.echo(f"designed, and not used by {scenario.training.strategy}: {shown}{more}")


@click.command()
@options.as_json("Print them as JSON: name, title, whether asynchronous, settings with defaults.")
def strategies(as_json: bool) -> None:
    """List the strategies: the name for `strategy:`, what it does, and its `strategy_settings:` with their defaults."""
    from dataclasses import asdict

    from e2c_dl.strategies import describe, names
    from e2c_dl.strategies.compression import COMPRESSORS
    from e2c_dl.strategies.seam import settings_of

    found = [describe(name) for name in names()]
    if as_json:
        click.echo(json.dumps([asdict(each) for each in found], indent=2))
        return
    for each in found:
        click.echo(f"{each.name}{' (asynchronous)' if each.asynchronous else ''}\n    {each.title}")
        for key, default in each.settings.items():
            click.echo(f"    {key}: {json.dumps(default)}")  # as YAML has it, too
    click.echo("\ncompression: of what any of them sends, with its compression_settings")
    for name, made in COMPRESSORS.items():
        click.echo(f"{name}\n    {(made.__doc__ or '').replace('`', '')}")
        for key, default in settings_of(made).items():
            click.echo(f"    {key}: {json.dumps(default)}")
