"""What hosts left, gathered host by host into an archive; what cannot be is named, and stays where it is.

::

    packed by the workflow's finalize --unpacked--> hosts/HOST        as under plain E2Clab
      missing, or damaged: its run directory --copied--> hosts/HOST   where that is on this machine
                                  `--over SSH, packed--> hosts/HOST   where it is not
                                                  still not all of it: Kept

One host's failure is nobody else's: each has a sentence of its own.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path

from e2c_dl.archive import layout
from e2c_dl.archive.unpack import unpack
from e2c_dl.beneath import Place
from e2c_dl.campaign.hosts import brought, ranks
from e2c_dl.errors import ArchiveError, E2cDlError
from e2c_dl.scenario.services import TRAINER
from e2c_dl.testbeds.base import Access
from e2c_dl.topology import Host

NAMES = (
    # small ones first: where the disk is nearly full, how a worker ended is worth more than its trace
    *(layout.OUTCOME, layout.FACTS, layout.CLOCK, layout.HOST_LINKS, layout.CHANGES, layout.WORKER_CHANGES),
    *(layout.PROGRESS, layout.VERDICTS, layout.METRICS, layout.HEAT, layout.WORKER_LOG, layout.SPANS_RAW),
    *(layout.CONNECTIONS_RAW, layout.MODEL),
)
"""Files of a run directory that an archive knows; everything else stays behind."""


@dataclass(frozen=True, kw_only=True)
class Kept:
    """A host whose files are not all in the archive: ``why``, and ``where`` they still are; None: nowhere for long."""

    host: str
    where: str | None  # a path on this machine, or USER@ADDRESS:PATH
    why: str

    def sentence(self, run_id: str) -> str:
        """For people, with what to do."""
        if self.where is None:
            return f"not all of what {self.host} left is in the archive ({self.why}); the rest is lost with its node"
        fetch = f"`e2c-dl collect {run_id}` fetches it from there"
        return f"not all of what {self.host} left is in the archive ({self.why}); it is kept in {self.where}: {fetch}"


@dataclass(frozen=True, kw_only=True)
class Source:
    """Where hosts' files may be found."""

    packed: Path | None  # the folder into which finalize fetched, one file per service id; None: it did not run
    state_dir: Path  # the run's own: what lies below is on this machine
    accesses: Mapping[str, Access]
    spent: bool = True  # what was fetched is the run's own, and is removed once it is unpacked
    lasting: bool = True  # what is not gathered stays on the hosts, to be fetched later
    silent: frozenset[str] = frozenset()  # hosts that are not asked: of them, only what is on this machine is taken

    def run_dir(self, host: str) -> Path | None:
        """The run directory of ``host`` on this machine; None if it is on another."""
        access = self.accesses.get(host)
        path = None if access is None else Path(access.run_dir)
        return path if path is not None and path.is_relative_to(self.state_dir) else None

    def where(self, host: str) -> str | None:
        """For people; None where it does not stay."""
        access, here = self.accesses.get(host), self.run_dir(host)
        if not self.lasting:
            return None
        return str(here) if here or access is None else f"{access.user}@{access.address}:{access.run_dir}"


def stay(kept: Iterable[Kept]) -> dict[str, str]:
    """Host -> where what was not gathered of it can still be fetched."""
    return {each.host: each.where for each in kept if each.where is not None}


def gather(hosts: Sequence[Host], source: Source, archive: Path) -> tuple[Kept, ...]:
    """What ``hosts`` left stands in ``archive``/hosts afterwards, but for the hosts that are returned.

    What ends the step from outside, such as Ctrl-C, ends it: the host it came at, and those after it, are among these.
    """
    kept: list[Kept] = []
    stopped: str | None = None
    for host in hosts:
        try:
            why = stopped or _gathered(host, source, archive)
            _model_to_its_place(host, archive)
        except E2cDlError as ended:
            why = stopped = str(ended)
        except OSError as error:  # the archive went away in between
            why = str(error)
        if why is not None:
            kept.append(Kept(host=host.name, where=source.where(host.name), why=why))
    return tuple(kept)


def _gathered(host: Host, source: Source, archive: Path) -> str | None:
    """Why not all that ``host`` left is in ``archive``; None if it is."""
    if not (archive / layout.RUN).is_file():  # not made anew: nobody would look for it there
        return f"{archive} is no archive any more: it was moved or removed"
    ways = [_from_packed]
    if source.run_dir(host.name) is not None:
        ways.append(_from_directory)
    elif host.name in source.silent:
        ways.append(lambda *_: "it is not asked any more")
    elif host.name in source.accesses:
        ways.append(_from_host)
    into = archive / layout.HOSTS / host.name
    why: str | None = None
    for way in ways:
        try:
            into.mkdir(parents=True, exist_ok=True)
            why = way(host, source, into)
        except (ArchiveError, OSError) as error:
            why = str(error)
        if why is None:
            break
    try:
        of_ranks = _ranks(host, source, archive)  # whatever became of the rest: it may be lost with its node
    except (ArchiveError, OSError) as error:
        of_ranks = str(error)
    with suppress(OSError):
        into.rmdir()  # it left nothing: an empty folder would look as if it had
    return "; ".join(dict.fromkeys(each for each in (why, of_ranks) if each)) or None


def _from_packed(host: Host, source: Source, into: Path) -> str | None:
    packed = None if source.packed is None else source.packed / f"{host.service_id}.tar.gz"
    if packed is None or not packed.is_file():
        return "nothing was fetched from it"
    damage = unpack(packed, into, NAMES).damage
    if source.spent:
        packed.unlink()
    return damage


def _from_directory(host: Host, source: Source, into: Path) -> str | None:
    """The files of NAMES in its run directory, copied one by one."""
    return brought.copied(Place(source.run_dir(host.name) or into), Place(into), NAMES)


def _from_host(host: Host, source: Source, into: Path) -> str | None:
    """As finalize would have done it, for one host."""
    access = source.accesses[host.name]
    return brought.fetched(access, access.run_dir, into, NAMES)


def _ranks(host: Host, source: Source, archive: Path) -> str | None:
    """The traces of a program of the user's, which every other service than Trainer's may have."""
    run_dir = source.run_dir(host.name)
    if host.service == TRAINER or not (run_dir or host.name in source.accesses):
        return None
    if run_dir is not None:
        return ranks.copied(host.name, run_dir, archive)
    return None if host.name in source.silent else ranks.fetched(host.name, source.accesses[host.name], archive)


def _model_to_its_place(host: Host, archive: Path) -> None:
    """What rank 0 has saved stands beside run.json: it was given the strategy's model."""
    model = archive / layout.HOSTS / host.name / layout.MODEL
    if host.rank == 0 and model.is_file():
        model.replace(archive / layout.MODEL)
