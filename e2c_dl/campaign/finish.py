"""Runs that ended without their last steps, finished later: by `e2c-dl collect RUN`, `destroy` and `verify --seal`.

::

    controller was killed    workers end ─ what hosts left is gathered ─ hosts released ─ links, report ─ sealed
    something could not be   ............. what was kept is gathered ─── removed ──────── links, report ─ sealed
      put into the archive
    killed while it reported, or no room for the report ................................. links, report ─ sealed
"""

from __future__ import annotations

import os
import shutil
from collections.abc import Mapping
from dataclasses import dataclass
from datetime import datetime, timezone
from pathlib import Path

from e2c_dl.archive import layout
from e2c_dl.archive.read import open_archive
from e2c_dl.archive.run import Outcome, Run
from e2c_dl.archive.write import Archive
from e2c_dl.campaign import causes, collect, hidden
from e2c_dl.campaign.hosts import follow
from e2c_dl.campaign.hosts.gather import Kept, Source, gather, stay
from e2c_dl.campaign.links.requested_links import write_links
from e2c_dl.campaign.request import Console
from e2c_dl.campaign.underway import Underway
from e2c_dl.campaign.walk import Step, walk
from e2c_dl.errors import ArchiveError, E2cDlError, InputError, Interrupted
from e2c_dl.scenario.folder.secret_values import redactor_of
from e2c_dl.scenario.load import load
from e2c_dl.testbeds import catalogue, own_programs, registry
from e2c_dl.testbeds.registry import RegisteredRun
from e2c_dl.testbeds.this_machine import processes
from e2c_dl.testbeds.this_machine.hosts import KEYS
from e2c_dl.topology import Host

KILL_WITHIN_S = 20.0
UNFINISHED = ".*.new"  # what a killed process was writing
REBUILT = "its first archive is gone: this one was made of what the hosts held; versions and emulation are not known"


@dataclass(kw_only=True)
class Leftover(Underway):
    """What the steps of finishing share. ``registered`` is None if the machine knows nothing of the run any more."""

    registered: RegisteredRun | None
    place: Path  # of the archive
    kept: Mapping[str, Kept] | None = None  # None: nothing was gathered
    secrets: tuple[bytes, ...] = ()  # must not stand in the archive
    removed: tuple[str, ...] = ()
    late: tuple[str, ...] = ()  # hosts that were kept until now

    @property
    def verdict(self) -> E2cDlError | None:
        """Of the run itself, not of finishing it."""
        return E2cDlError(killed(self.the_archive.run))

    @property
    def hosts(self) -> tuple[Host, ...]:
        """Those that may have left something: the scenario's, else those that the machine knows."""
        if self.scenario is not None:
            return self.scenario.topology.ranks
        known = () if self.registered is None else self.registered.hosts
        return tuple(
            Host(name=each.name, layer="", service="", service_id="", role=each.name, rank=None) for each in known
        )

    @property
    def source(self) -> Source | None:
        """Where the hosts' files may be found."""
        run = self.registered
        if run is None:
            return None
        accesses, lasting = {each.name: each for each in run.hosts}, catalogue.keeps_hosts(run.testbed)
        return Source(packed=None, state_dir=run.directory, accesses=accesses, lasting=lasting)


def finish(run_id: str, console: Console, archive: Path | None = None) -> Path:
    """The archive of run ``run_id``, sealed; everything of the run is gone from this machine and its hosts.

    ``archive``: where it is by now, or is to be made anew. Raises: InputError if the run still goes on, or nobody knows
    it, or where its archive is; else the error of the first step that failed, after the others were tried.
    """
    registry.load(run_id)  # there must be one
    with registry.held(run_id):
        run = registry.load(run_id)
        if registry.live_controller(run.directory) is not None:
            raise InputError(f"run {run_id} is still going on; Ctrl-C ends it, or `e2c-dl destroy {run_id}`")
        return _finished(run, console, archive).archive_path


def end(run_id: str, console: Console, *, asked: bool, discard: bool = False) -> tuple[str, ...]:
    """End run ``run_id`` and remove all it has, what its hosts hold being in its archive by then; one line each.

    ``asked``: by its name, so that it is ended even if it is alive, and removed even if something cannot be put into
    its archive, which the lines say. ``discard``: nothing is collected. Raises: what stands in the way, if not
    ``asked``; Interrupted, the run left as it is by then; TestbedError if something cannot be removed.
    """
    directory = registry.run_directory(run_id)
    with registry.held(run_id) as there:
        if there and asked:
            processes.kill(lambda: processes.controller_of(directory), KILL_WITHIN_S)
        if not there or not directory.exists():  # its controller may just have released it
            return ("somebody else did, meanwhile",)
        lines: list[str] = []
        try:
            # Now: until it was dead, its controller may have changed it. None: it was killed before it wrote one.
            run = registry.load(run_id) if os.path.lexists(directory / registry.STATE) else None
            if run is not None and is_unfinished(run) and not discard:
                finished = _finished(run, console, None)
                lines += [*finished.removed, f"its archive was finished: {finished.archive_path}"]
        except Interrupted:  # whoever stops it does not say that traces may go
            raise
        except E2cDlError as error:  # a state.json that cannot be read, an archive that is gone, a host that is off
            if not asked:
                raise
            lines.append(f"not collected: {error}")
        return (*lines, *catalogue.destroy(run_id))


def _finished(run: RegisteredRun, console: Console, archive: Path | None) -> Leftover:
    place = archive or Path(run.archive)
    if archive is None and not (run.archive and (place / layout.RUN).is_file()):
        gone = f"its archive {run.archive} is gone" if run.archive else "it was killed before it had an archive"
        raise InputError(f"run {run.id}: {gone}; name it, or a new one: `e2c-dl collect {run.id} --archive PATH`")
    return _walked(Leftover(console=console, registered=run, place=place))


def seal(path: Path, console: Console) -> Path:
    """The archive at ``path``, reported as far as that is possible, and sealed. Raises: as ``finish``."""
    run = open_archive(path).run
    if (path / layout.MANIFEST).is_file():
        raise InputError(f"{path}: is sealed; `e2c-dl verify {path}` checks it")
    known = {each.id: each for each in registry.runs()}
    if run.run_id in known:  # its hosts may hold more than the archive
        remedy = f"`e2c-dl collect {run.run_id}` finishes it"
        raise InputError(f"{path}: run {run.run_id} still has something on this machine; {remedy}")
    return _walked(Leftover(console=console, registered=None, place=path)).archive_path


def is_unfinished(run: RegisteredRun) -> bool:
    """Whether something of ``run`` may not be in its archive, or that is not sealed."""
    if run.details.get(registry.UNCOLLECTED):
        return True
    return bool(run.archive) and not (Path(run.archive) / layout.MANIFEST).is_file()


def _walked(leftover: Leftover) -> Leftover:
    try:
        failure = walk(STEPS, leftover)
    finally:
        if leftover.archive is not None:
            leftover.archive.let_go()
    if failure is not None:
        raise failure
    return leftover


def opened(leftover: Leftover) -> None:
    """Go on writing its archive; make a new one of what the hosts hold where that is gone."""
    place, run = leftover.place, leftover.registered
    if run is not None and not (place / layout.RUN).is_file():
        _made_anew(place, run, leftover.source)
    if run is not None and (found := open_archive(place).run.run_id) != run.id:
        raise InputError(f"{place}: is the archive of run {found}, not of {run.id}; name another with --archive")
    leftover.archive = Archive.resume(place)
    (place / layout.MANIFEST).unlink(missing_ok=True)  # it grows: what breaks off from here is not sealed
    if run is not None:  # who comes next need not be told where it is by now
        leftover.registered = registry.changed(run, archive=str(place))
    try:
        leftover.scenario = load(open_archive(place).scenario)
    except E2cDlError as error:  # it was killed before that was whole; then its hosts hold nothing
        leftover.console.say(str(error))


def _made_anew(place: Path, run: RegisteredRun, source: Source | None) -> None:
    found = [source.run_dir(each.name) for each in run.hosts] if source is not None else []
    scenarios = [path / layout.SCENARIO for path in found if path is not None]
    scenarios = [path for path in scenarios if path.is_dir() and not path.is_symlink()]  # a host's link is not followed
    if not scenarios:
        raise ArchiveError(f"run {run.id}: nothing on this machine holds its scenario; give back its archive")
    begun = datetime.fromtimestamp(run.begun_s, timezone.utc).astimezone()
    archive = Archive.create(place, run.id, started=begun.isoformat(timespec="seconds"))
    shutil.copytree(scenarios[0], place / layout.SCENARIO, symlinks=True)
    archive.record(scenario=run.scenario, testbed=run.testbed)
    archive.limited(REBUILT)
    archive.let_go()


def gathered(leftover: Leftover) -> None:
    """End what still trains, and take over what the hosts hold."""
    source, run = leftover.source, leftover.registered
    if source is None or run is None:
        return
    keys = {*(Path(each.keyfile) for each in run.hosts), *(run.directory / name for name in (*KEYS, own_programs.KEY))}
    leftover.keep_secret(hidden.known(run.directory))
    leftover.secrets = tuple(path.read_bytes() for path in sorted(keys) if path.is_file())
    uncollected = run.details.get(registry.UNCOLLECTED)
    if uncollected is None:  # else workers had ended, and hosts that are not among them may be gone
        follow.stop_workers(run.hosts)
    known = source.accesses if uncollected is None else uncollected  # a run that was killed early has not all of them
    hosts = [host for host in leftover.hosts if host.name in known]
    kept = gather(hosts, source, leftover.archive_path)
    leftover.kept = {each.host: each for each in kept}
    leftover.late = tuple(host for host in uncollected or () if host not in leftover.kept)
    registry.changed(run, details={registry.UNCOLLECTED: stay(kept)})
    for each in kept:
        leftover.console.say(each.sentence(run.id))
    if kept:
        raise ArchiveError(f"not all that {', '.join(leftover.kept)} left is in {leftover.place}; {kept[0].why}")


def released(leftover: Leftover) -> None:
    """Remove all of the run but what could not be taken over."""
    run = leftover.registered
    if run is not None and leftover.kept is not None:  # not gathered: nothing is known to be safe
        leftover.removed = catalogue.destroy(run.id, keep=tuple(leftover.kept))


def compared(leftover: Leftover) -> None:
    """Links as designed, requested and measured."""
    if leftover.scenario is not None:
        for sentence in write_links(open_archive(leftover.archive_path), leftover.scenario):
            if f"link {sentence}" not in leftover.the_archive.run.limitations:
                leftover.the_archive.limited(f"link {sentence}")


def closed(leftover: Leftover) -> None:
    """Say how it ended, report and seal."""
    archive, run = leftover.the_archive, leftover.the_archive.run
    if not leftover.redactor:
        leftover.keep_secret(redactor_of(archive.path / layout.SCENARIO, os.environ))
    shutil.rmtree(archive.path / layout.E2CLAB, ignore_errors=True)  # of a run that was killed
    for path in archive.path.rglob(UNFINISHED):
        path.unlink()
    happened = _later(leftover)
    if run.outcome is Outcome.RUNNING:
        left, kept = open_archive(archive.path), leftover.kept or ()
        traced = [host for host in leftover.hosts if host.name in left.hosts]
        found = collect.events(left, traced, asked_to_stop=True, kept=kept)
        happened = (killed(run), *causes.told((), found)[0], *happened)
    outcome = Outcome.FAILED if run.outcome is Outcome.RUNNING else run.outcome
    leftover.conclude(happened, leftover.secrets, outcome=outcome)


def _later(leftover: Leftover) -> tuple[str, ...]:
    """What became of that which the archive says to be kept elsewhere."""
    return tuple(
        f"what {host} left was collected later"
        if (leftover.archive_path / layout.HOSTS / host).is_dir()
        else f"nothing of {host} was there any more when it was collected later"
        for host in leftover.late
    )


def killed(run: Run) -> str:
    """What is known of the end of a run that did not come to say how it ended."""
    after = f"after its step {run.steps[-1].step!r}" if run.steps else "at its beginning"
    return f"its controller was killed, or the machine went down, {after}: the archive was finished later"


STEPS: tuple[Step[Leftover], ...] = (
    Step(name="open", what="opening the archive", act=opened),
    Step(name="collect", what="collecting what the hosts left", act=gathered, always=True),
    Step(name="release", what="releasing the hosts", act=released, always=True),
    Step(name="verify", what="comparing links with what was requested", act=compared, always=True),
    Step(name="report", what="finding what slowed it down, sealing the archive", act=closed, always=True, last=True),
)
