"""All trials of the comparison: those that a file has already, and the rest over processes or a Dask cluster.

::

    FILE.jsonl    {"code": "3f0c...", "asked": {"system": ..., "environment": ..., "seed": 1}, "reached_s": ...}
                  a line per trial, written as it ends: a campaign that is killed goes on where it was

A line counts only for the code and the settings by which it was made, so that figures of two versions never mix.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import closing
from dataclasses import asdict
from itertools import product
from pathlib import Path
from statistics import fmean
from typing import Any

from benchmarks import rooms
from benchmarks.kept import Kept, named
from benchmarks.systems import environments, table
from benchmarks.systems.trial import Asked, Ran, experiment_files, ran
from e2c_dl.campaign.predicting.advice.workers import in_processes, most_workers, on_cluster
from e2c_dl.codec import convert

CODE = ("e2c_dl/strategies", "e2c_dl/worlds", "benchmarks/systems/trial.py")
TOOK_S = 15.0  # of a trial that nobody has made yet: a guess

PARTS: Mapping[str, tuple[environments.Environment, ...]] = {
    "environments": environments.DLION,
    "parts": environments.DLION,
    "wan": environments.WAN,
    "bandwidth": environments.BANDWIDTHS,
    "sixteen": environments.PAPERS,
}
"""Environments of each part of the comparison; ``parts``: the systems that are one part of another alone."""
AGAINST: Mapping[str, tuple[str, ...]] = {
    "sixteen": ("all-reduce", "parameter server", "AD-PSGD", "Hop", "Prague"),
}
"""Of a part whose workers are many: the systems that the papers compare with their own."""


def asked_for(parts: Sequence[str], seeds: int, only: Sequence[str] = (), where: Sequence[str] = ()) -> list[Asked]:
    """The trials of these ``parts``, seed by seed, so that a campaign that is cut off has some of everything."""
    found = []
    for seed, part in product(range(1, seeds + 1), parts):
        for system, environment in product(table.systems(), PARTS[part]):
            chosen = (not only or system.name in only) and (not where or environment.name in where)
            if chosen and _takes_part(system, part):
                found.append(Asked(system=system.name, environment=environment.name, seed=seed))
    return found


def _takes_part(system: table.System, part: str) -> bool:
    return bool(system.part_of) == (part == "parts") and system.name in AGAINST.get(part, (system.name,))


class Done:
    """The trials that ``file`` has, of the code as it is; ``code``: the files and folders that decide what comes."""

    def __init__(self, file: Path, code: tuple[str, ...] = CODE) -> None:
        self._kept = Kept(file)
        self._code = rooms.hashes(code)
        self._files = experiment_files()
        self.of_other_code = 0
        self.trials: dict[Asked, Ran] = {}
        for line in self._kept.lines():
            self._read(line)

    def keep(self, came: Ran) -> None:
        """Have it, in the file, too."""
        self.trials[came.asked] = came
        self._kept.add({"code": self._key(came.asked), **asdict(came)})

    def took_s(self, asked: Asked) -> float:
        """About how long ``asked`` will take: as others of its system, else as all."""
        alike = [each.took_s for each in self.trials.values() if each.asked.system == asked.system]
        return fmean(alike or [each.took_s for each in self.trials.values()] or [TOOK_S])

    def _read(self, content: dict[str, Any]) -> None:
        where, remedy = str(self._kept.file), "remove the file"
        code, asked = content.pop("code"), convert(content["asked"], Asked, where, remedy=remedy)
        if asked.environment in environments.ALL and code == self._key(asked):  # else its fields may be others, too
            self.trials[asked] = convert(content, Ran, where, remedy=remedy)
        else:
            self.of_other_code += 1

    def _key(self, asked: Asked) -> str:
        """Name of all that decides what comes of ``asked``."""
        system = {each.name: each for each in table.systems()}.get(asked.system)
        environment = environments.ALL[asked.environment]
        files = sorted({**self._files, **environment.files()}.items())
        return named(sorted(self._code.items()), files, repr(system), environment.within_s)


def made(
    trials: Sequence[Asked], done: Done, *, workers: int | None, scheduler: str | None,
    tell: Callable[[Ran, int, float], None],
) -> None:  # fmt: skip
    """Make those of ``trials`` that are not done; ``tell`` hears of each, how many are left, and for how long."""
    left = [asked for asked in trials if asked not in done.trials]
    at_once = min(workers or most_workers(), max(len(left), 1))
    with closing(_begun(left, at_once, scheduler)) as ending:
        for came in ending:
            done.keep(came)
            left.remove(came.asked)
            tell(came, len(left), seconds_left(left, done, at_once))


def seconds_left(left: Sequence[Asked], done: Done, at_once: int) -> float:
    """About how long these trials will take."""
    return sum(map(done.took_s, left)) / at_once


def _begun(left: Sequence[Asked], at_once: int, scheduler: str | None) -> Iterator[Ran]:
    files, items = experiment_files(), [(asked,) for asked in left]
    if scheduler is not None:
        return on_cluster(ran, files, items, scheduler)
    return in_processes(ran, files, items, at_once)
