"""``e2c-dl probe``: what training would use, measured and held against the design, before anything is trained."""

from __future__ import annotations

import json
from pathlib import Path
from typing import TYPE_CHECKING

import click

from e2c_dl.cli import options
from e2c_dl.cli.asked import Asked, of_run
from e2c_dl.cli.machine import tell_broken
from e2c_dl.cli.telling.console import open_console
from e2c_dl.errors import FidelityError

if TYPE_CHECKING:
    from e2c_dl.emulation.measuring.probed import Probe


@click.command()
@of_run(strict="Exit code 3 if a host or a link is slower than designed.")
@options.as_json("Print what was measured as JSON on standard output, nothing else.")
def probe(asked: Asked, as_json: bool) -> None:
    """Deploy SCENARIO, measure every link that training would use, try a few gradients on every host, and end.

    \b
    Names hosts and links that are slower than designed, and whom to leave out. ARTIFACTS is as for `deploy`, which
    says the same before its first iteration.
      e2c-dl probe experiments/first-light artifacts
      e2c-dl probe my-scenario artifacts --on static --inventory hosts.yaml
    """
    from e2c_dl.testbeds import catalogue

    request = asked.request(only_probe=True)
    tell_broken()
    catalogue.enter(asked.testbed)  # before anything exists: it may start this program again, inside namespaces
    from e2c_dl.campaign.run import run
    from e2c_dl.cli.telling.detached import Transcript

    probed = found(run(request, open_console(quiet=as_json), Transcript()))
    _print(probed, as_json)
    if asked.strict and probed.sentences():
        raise FidelityError(f"slower than designed: {probed.sentences()[0]}")


def found(path: Path) -> Probe:
    """What the hosts of the archive at ``path`` found. Raises: ArchiveError; ScenarioError."""
    from e2c_dl.archive.read import open_archive
    from e2c_dl.emulation.measuring.fidelity import LinkFidelity
    from e2c_dl.emulation.measuring.probed import Probe
    from e2c_dl.scenario.load import load

    archive = open_archive(path)
    rows = [LinkFidelity.from_json(row) for row in archive.links()]
    measured = {(row.src, row.dst): row.measured for row in rows if row.measured is not None or row.failed}
    return Probe.of(load(archive.scenario), archive.host_facts, measured)


def _print(found: Probe, as_json: bool) -> None:
    if as_json:
        click.echo(json.dumps(found.to_json(), indent=1))
        return
    from rich.console import Console
    from rich.table import Table
    from rich.text import Text

    from e2c_dl import formatting

    hosts = Table("host", "a gradient takes", "by design", "times slower", box=None, header_style="bold")
    for host in found.hosts:
        designed_s = found.reference_s(host)
        known = ("?", "?") if designed_s is None else (
            formatting.seconds(designed_s), formatting.times(host.gradient_s / designed_s)
        )  # fmt: skip
        hosts.add_row(Text(host.name), formatting.seconds(host.gradient_s), *known)
    links = Table("link", "carries", "by design", "round trip", "by design", box=None, header_style="bold")
    for link in found.links:
        seen, carries, round_trip = link.measured, "next to nothing", "-"
        if seen is not None:
            carries = ("at least " if seen.rate_is_floor else "") + formatting.rate(seen.rate_bps)
            round_trip = formatting.seconds(seen.round_trip_s)
        links.add_row(
            Text(f"{link.src} -> {link.dst}"), carries, formatting.limit(link.designed.rate_bps),
            round_trip, formatting.seconds(link.designed_round_trip_s),
        )  # fmt: skip
    console = Console(highlight=False)
    console.print(hosts)
    console.print()
    console.print(links)
    console.print()
    for sentence in found.sentences() or ("Every host and every link that was judged is as designed.",):
        console.print(sentence, markup=False, soft_wrap=True)
    if found.unjudged:
        console.print(
            f"Not judged, as nobody is comparable: {', '.join(found.unjudged)}.", markup=False, soft_wrap=True
        )
