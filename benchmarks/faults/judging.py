"""What must hold after a run, whatever happened to it; every sentence that is returned is a failure."""

from __future__ import annotations

import re
import signal
from collections.abc import Callable, Collection
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path

from benchmarks.faults.drawn import HOSTS, Drawn, Fault
from benchmarks.faults.kinds import KINDS
from benchmarks.faults.left import Look, left, look
from benchmarks.faults.site import Site, known
from e2c_dl.archive import layout
from e2c_dl.archive.host_records import HostRecords
from e2c_dl.errors import ArchiveError
from e2c_dl.trace.places import recorded

_LATE = ("collect", "release", "verify", "report")
"""What is done in any case: a signal that comes then finds a run that has trained."""

_GONE = ("host-killed", "sshd-killed")
"""What a machine made of namespaces does not come back from."""


@dataclass
class Ended:
    """A run that is over, and what was done for it afterwards."""

    drawn: Drawn
    exit_code: int | None
    said: str
    hits: dict[str, str]  # kind -> what was hit
    traced: frozenset[str]  # hosts whose workers had written spans
    run_id: str
    limit_s: float  # in which it had to end
    happened: tuple[str, ...] = ()  # what_happened of run.json as the run left it
    commands: list[str] = field(default_factory=list)

    @property
    def last_line(self) -> str:
        return next((line for line in reversed(self.said.splitlines()) if line.strip()), "")


def wrong(ended: Ended, site: Site, before: Look, thaw: Callable[[], None]) -> tuple[str, ...]:
    """All that is not as it must be. Collects, verifies and destroys, as a user would."""
    found: list[str] = []
    whole = _is_whole(site)
    ended.happened = tuple(str(each) for each in known(site.archive / layout.RUN).get("what_happened") or ())  # type: ignore[attr-defined]
    found += _exit_code(ended, whole)
    found += _cause(ended)
    thaw()
    site.make_room()
    found += _traces(ended, site)
    found += _archive(ended, site)
    found += _left(ended, site, before)
    return tuple(found)


def _exit_code(ended: Ended, whole: bool) -> list[str]:
    if ended.exit_code is None:
        return [f"it had not ended after {ended.limit_s:.0f} s"]
    if ended.exit_code == 0:
        return [] if whole or not ended.hits else ["exit code 0, and not all hosts finished"]
    right = set().union(*(KINDS[kind].exit_codes for kind in ended.hits))
    return [] if ended.exit_code in right else [f"exit code {ended.exit_code}, not {_either(right)}"]


def _cause(ended: Ended) -> list[str]:
    """Who reads the first cause, or the last line, must learn what was done to the run."""
    if ended.exit_code in (0, None, -signal.SIGKILL):
        return []
    hit = [fault for fault in ended.drawn.faults if fault.kind in ended.hits]
    told = []
    if ended.happened and not _named(ended.happened[0], hit):
        told.append(f"the first cause names something else: {ended.happened[0]}")
    if "reader-gone" not in ended.hits and not _named(ended.last_line, hit):
        told.append(f"the last line names something else: {ended.last_line}")
    return told


def _named(line: str, faults: Collection[Fault]) -> bool:
    patterns = (KINDS[fault.kind].named.replace("{host}", fault.host) for fault in faults)
    return any(pattern and re.search(pattern, line) for pattern in patterns)


def _traces(ended: Ended, site: Site) -> list[str]:
    """What a host that is still there has traced is in the archive, or it is said how to get it, and that works."""
    if any(KINDS[kind].loses_archive for kind in ended.hits) or not ended.run_id:
        return []
    lost = {fault.host for fault in ended.drawn.faults if KINDS[fault.kind].loses_host and fault.kind in ended.hits}
    missing = sorted(host for host in ended.traced - lost if not _has_trace(site.archive, host))
    killed = ended.exit_code == -signal.SIGKILL
    untold = [host for host in missing if not _told_where(ended, host)] if not killed else []
    told = [f"the trace of {host} is not in the archive, and nobody says where it is" for host in untold]
    if missing or killed:
        done = site.command("collect", ended.run_id)
        ended.commands.append(f"collect: {done.returncode} {done.stderr.strip()[-300:]}")
        still = [host for host in missing if not _has_trace(site.archive, host)]
        told += [f"the trace of {host} is not in the archive after `e2c-dl collect`" for host in still]
    return told


def _told_where(ended: Ended, host: str) -> bool:
    text = "\n".join((*ended.happened, ended.said))
    return f"e2c-dl collect {ended.run_id}" in text and host in text


def _archive(ended: Ended, site: Site) -> list[str]:
    if any(KINDS[kind].loses_archive for kind in ended.hits) or not site.archive.is_dir():
        return []
    done = site.command("verify", str(site.archive))
    if done.returncode and ended.run_id and not any(each.startswith("collect") for each in ended.commands):
        more = site.command("collect", ended.run_id)  # what `verify` of a run that broke off says to do
        ended.commands.append(f"collect: {more.returncode} {more.stderr.strip()[-300:]}")
        done = site.command("verify", str(site.archive))
    if "verify --seal" in done.stderr:  # nothing of the run is left but this
        more = site.command("verify", "--seal", str(site.archive))
        ended.commands.append(f"verify --seal: {more.returncode} {more.stderr.strip()[-300:]}")
        done = site.command("verify", str(site.archive))
    ended.commands.append(f"verify: {done.returncode} {done.stdout.strip()[-200:]} {done.stderr.strip()[-200:]}")
    return (
        [] if done.returncode == 0 else [f"the archive does not verify: {(done.stdout + done.stderr).strip()[-300:]}"]
    )


def _left(ended: Ended, site: Site, before: Look) -> list[str]:
    told, gone = [], set()
    if ended.run_id:
        done = site.command("destroy", ended.run_id)
        ended.commands.append(f"destroy: {done.returncode} {done.stderr.strip()[-300:]}")
        gone = _machines_gone(ended) if done.returncode not in (0, 2) else set()  # 2: there is no such run any more
        if done.returncode not in (0, 2) and not any(host in done.stderr for host in gone):
            told.append(f"destroy failed: {done.stderr.strip()[-300:]}")
    own = {f"file {site.folder}", *(f"file {site.state / ended.run_id}" for _ in gone)}  # it is tried again later
    return told + [f"left: {line}" for line in left(before, lambda: look(site, ended.run_id)) if line not in own]


def _machines_gone(ended: Ended) -> set[str]:
    """Machines of the user's own that are switched off for good: only he can say that they need no cleaning up."""
    own = ended.drawn.testbed == "static"
    return {fault.host for fault in ended.drawn.faults if own and fault.kind in _GONE and fault.kind in ended.hits}


def _is_whole(site: Site) -> bool:
    """Whether the archive, also one that was moved when all was done, says that the run and its workers finished."""
    archive = site.archive if site.archive.is_dir() else site.moved
    if known(archive / layout.RUN).get("outcome") != "finished":
        return False
    with suppress(ArchiveError):
        outcomes = [HostRecords(archive / layout.HOSTS / host).outcome() for host in HOSTS]
        return all(outcome is not None and outcome.status == "finished" for outcome in outcomes)
    return False


def _has_trace(archive: Path, host: str) -> bool:
    own = recorded(archive, host)
    return any(place.exists() and place.path.stat().st_size for place in (own.raw, own.table))


def _either(codes: Collection[int]) -> str:
    return " or ".join(str(code) for code in sorted(codes)) or "0"
