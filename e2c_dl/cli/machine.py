"""``e2c-dl doctor | destroy | shell | logs``: this machine, and the runs that are up on it."""

from __future__ import annotations

import json
import os
import sys
from pathlib import Path
from typing import TYPE_CHECKING

import click

from e2c_dl.cli import options

if TYPE_CHECKING:
    from e2c_dl.testbeds.base import Access, Probe
    from e2c_dl.testbeds.registry import RegisteredRun


@click.command()
@options.on(None)
@options.as_json("Print the findings as JSON.")
def doctor(testbed: str | None, as_json: bool, **said: str | None) -> None:
    """What this machine can and cannot do, or what a testbed can: netem, namespaces, cgroups, ssh, memory, programs.

    Without --on: of everything on this machine, judged for a local run. Exit code 1 if a run would not work there.
    """
    from e2c_dl.testbeds import catalogue
    from e2c_dl.testbeds.this_machine import probes as machine

    bed = catalogue.testbed(testbed or "local", options.given(said))
    found = machine.probes() if testbed is None else bed.probes()
    stops = bed.blocking(found)
    if as_json:
        findings = {"testbed": bed.name, "probes": [vars(probe) for probe in found], "stops_a_run": stops}
        click.echo(json.dumps(findings, indent=1))
    else:
        _print_probes(found, stops)
        click.echo(
            f"a run on {bed.name} will not work: {', '.join(stops)}" if stops else f"a run on {bed.name} will work"
        )
    sys.exit(1 if stops else 0)  # for scripts: doctor && deploy


def _print_probes(found: tuple[Probe, ...], stops: tuple[str, ...]) -> None:
    from rich.console import Console
    from rich.markup import escape
    from rich.table import Table

    table = Table(box=None, pad_edge=False, show_header=False)
    for probe in found:
        mark = "[green]yes[/]" if probe.ok else ("[red]no[/]" if probe.name in stops else "[yellow]no[/]")
        said = f"{probe.detail}; {probe.remedy}" if probe.remedy and not probe.ok else probe.detail
        table.add_row(mark, escape(probe.name), escape(said))
    Console(highlight=False).print(table)


@click.command()
@click.argument("run", required=False)
@click.option("--discard", is_flag=True, help="Collect nothing first: what hosts traced is lost.")
@options.as_json("Print as JSON: removed (run, told), failed (run, why), left_up (run, scenario, why).")
def destroy(run: str | None, discard: bool, as_json: bool) -> None:
    """Remove what crashed runs left, on this machine and on the hosts they used, and only that.

    Without RUN: every run whose `e2c-dl` is gone, but for those that `deploy --keep` left up. With RUN: that one, even
    if it is still going on. What their hosts traced is put into their archives first; where that cannot be done, a run
    is left alone unless it is named.
    """
    from e2c_dl.campaign import finish
    from e2c_dl.cli.telling.console import open_console
    from e2c_dl.errors import E2cDlError, InputError, Interrupted
    from e2c_dl.testbeds import registry

    dead = registry.dead_runs()  # before any is removed: those that never came to write their state, too
    known = dict.fromkeys([*(each.id for each in registry.runs()), *registry.broken(), *dead])
    if run is not None and run not in known:
        raise InputError(f"{run}: no such run on this machine; known: {', '.join(known) or 'none'}")
    removed: list[dict[str, object]] = []
    failures: dict[str, E2cDlError] = {}
    console = open_console(quiet=True)
    for run_id in dead if run is None else (run,):
        try:
            lines = finish.end(run_id, console, asked=run is not None, discard=discard)
        except Interrupted:
            raise
        except E2cDlError as error:  # a host that is off must not keep the other runs from being removed
            click.echo(f"{run_id}: {error}", err=True)
            failures[run_id] = error
            continue
        removed.append({"run": run_id, "told": list(lines)})
        if not as_json:
            click.echo("\n  ".join([f"{run_id}: removed", *lines]))
    if as_json:
        failed = [{"run": run_id, "why": str(error)} for run_id, error in failures.items()]
        click.echo(json.dumps({"removed": removed, "failed": failed, "left_up": _left_up()}, indent=1))
    else:
        if run is None and not dead:
            click.echo("no crashed run left anything")
        for left in _left_up():
            click.echo(
                f"{left['run']}: {left['scenario']} {left['why']}, left alone; `e2c-dl destroy {left['run']}` ends it"
            )
    tell_broken()
    if failures:
        sys.exit(next(iter(failures.values())).exit_code)


def _left_up() -> list[dict[str, str]]:
    """Runs that were kept, or that still go on; asked anew, some are gone by now."""
    from e2c_dl.testbeds import registry

    return [
        {"run": each.id, "scenario": each.scenario, "why": "was kept" if each.kept else "is still going on"}
        for each in registry.runs()
        if each.kept or registry.live_controller(each.directory) is not None
    ]


@click.command(context_settings={"ignore_unknown_options": True})  # COMMAND's options are its own
@click.argument("host")
@click.argument("command", nargs=-1, type=click.UNPROCESSED)
@click.option("--run", "run_id", help="Which run, if several are up.")
def shell(host: str, command: tuple[str, ...], run_id: str | None) -> None:
    """Open a shell on HOST of a run that is up (`deploy --keep` leaves it up), or run COMMAND there."""
    from e2c_dl.testbeds import registry
    from e2c_dl.testbeds.programs import ssh_argv

    if run_id is None:
        tell_broken()
    argv = ssh_argv(_access(host, registry.up(run_id)), *command)
    os.execvp(argv[0], argv)  # in place of this process: terminal, signals and exit code are ssh's own


@click.command()
@click.argument("where", required=False)
@click.option("--host", help="Only this host's worker.")
def logs(where: str | None, host: str | None) -> None:
    """Show the logs of WHERE: an archive's path, or the id of a run that is up [default: the one that is up]."""
    if where is not None and Path(where).is_dir():
        _archived_logs(Path(where), host)
        return
    from e2c_dl.archive import layout
    from e2c_dl.testbeds import programs, registry

    if where is None:
        tell_broken()
    run = registry.up(where)
    for access in [_access(host, run)] if host is not None else run.hosts:
        _print_log(access.name, programs.said(access, "cat", f"{access.run_dir}/{layout.WORKER_LOG}"))


def tell_broken() -> None:
    """Name the runs whose state cannot be read, on standard error: their damage concerns nothing else."""
    from e2c_dl.testbeds import registry

    for run_id, why in registry.broken().items():
        click.echo(f"{run_id}: {why}", err=True)


def _archived_logs(archive: Path, host: str | None) -> None:
    from e2c_dl.archive import layout
    from e2c_dl.beneath import LARGE_BYTES, Place
    from e2c_dl.errors import InputError

    hosts, logs = Place(archive) / layout.HOSTS, Place(archive) / layout.LOGS
    workers = {name: hosts / name / layout.WORKER_LOG for name in hosts.folders()}
    workers = {name: place for name, place in workers.items() if place.exists()}
    if host is not None and workers and host not in workers:
        raise InputError(f"{archive}: no log of {host}; name one of {', '.join(workers)}")
    chosen = [place for name, place in workers.items() if host in (None, name)]
    if host is None and logs.exists():  # those of no host in particular
        chosen += [logs / name for name in logs.names() if not (logs / name).is_folder()]
    if not chosen:
        raise InputError(f"{archive}: holds no logs; name the directory of a live run")
    for place in chosen:
        # a killed worker may have cut a character
        _print_log(place.name, place.read(LARGE_BYTES).decode(errors="replace"))


def _access(host: str, run: RegisteredRun) -> Access:
    from e2c_dl.errors import InputError

    for access in run.hosts:
        if access.name == host:
            return access
    raise InputError(f"{host}: no such host; run {run.id} has {', '.join(access.name for access in run.hosts)}")


def _print_log(name: str, text: str) -> None:
    from e2c_dl.formatting import visible

    click.echo(f"==> {visible(name, breaks='')} <==")
    click.echo(visible(text.rstrip("\n")))
