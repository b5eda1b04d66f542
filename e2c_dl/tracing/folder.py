"""The folder that a traced rank leaves on its host: hosts/NAME, its records in the form that archives have."""

from __future__ import annotations

import contextlib
import json
import os
import platform
import shutil
import sys
import time
from collections.abc import Mapping
from itertools import count
from pathlib import Path
from typing import Any

from e2c_dl import __version__
from e2c_dl.archive import layout
from e2c_dl.archive.host_records import HostRecords
from e2c_dl.archive.records import Cause, HostFacts, WorkerOutcome
from e2c_dl.atomic_write import whole
from e2c_dl.errors import TrainingError
from e2c_dl.memory import cpu_model
from e2c_dl.trace.attaching import DIRECTORY
from e2c_dl.trace.clocks.clock import write_alignment
from e2c_dl.trace.model import ClockAlignment
from e2c_dl.tracing.launch import wait_for
from e2c_dl.tracing.rendezvous import TORCHRUN, Ranks, attempt
from e2c_dl.tracing.settings import directory

SPANS = layout.SPANS_RAW
FORMAT = 1
LIBRARIES = ("torch", "horovod", "numpy", "lightning", "transformers", "accelerate", "deepspeed")


def make(archive: Path, ranks: Ranks) -> Path:
    """A new folder for this rank. Raises: TrainingError if it has been traced there."""
    path = archive / layout.HOSTS / ranks.folder
    if TORCHRUN in os.environ:
        _put_aside(archive, ranks)
    for place in (path, path.with_name(f"{ranks.own.host}_{ranks.own.rank}")):
        try:
            place.mkdir(parents=True)
        except FileExistsError:
            if not ranks.missing or not _of_another(ranks, place):
                break
        else:
            return place
    remedy = "use another archive, or tell ranks apart by E2CDL_RANK and E2CDL_WORLD_SIZE"
    raise TrainingError(f"{place}: rank {ranks.own.rank} was traced there before; {remedy}")


def _put_aside(archive: Path, ranks: Ranks) -> None:
    """What ranks left here before torchrun began all anew, whatever folder each had, stands in attempts/.

    It counts how often it did so after a failure, but not as others came, where ranks are more than before.
    """
    for path in sorted((archive / layout.HOSTS).glob("*")):
        told, before = _told(path), _attempt_of(path)
        failed, others = before < attempt(), told.get("world_size") != ranks.world_size
        gone = told.get("boot") == ranks.own.boot and not wait_for((told.get("pid", 0),), 0.0)
        if (failed and path.name == ranks.folder) or (told and gone and (failed or others)):
            kept = next(
                place for number in count(before)
                if not (place := archive / layout.ATTEMPTS / str(number) / path.name).exists()
            )  # fmt: skip
            kept.parent.mkdir(parents=True, exist_ok=True)
            with contextlib.suppress(FileNotFoundError):  # another rank of now has done it
                path.rename(kept)


def _of_another(ranks: Ranks, path: Path) -> bool:
    """Whether one of those that are missing has it: ranks of one host that do not know of each other."""
    told = _told(path)
    return not told or (told.get("rank") in ranks.missing and told.get("world_size") == ranks.world_size)


def _attempt_of(path: Path) -> int:
    """Of which attempt the folder of a rank is; 0, if it does not say."""
    said = _told(path).get("attempt", 0)
    return said if isinstance(said, int) else 0


def _told(path: Path) -> dict[str, Any]:
    """What its rank says in it; empty, if it has not by now."""
    try:
        told = json.loads((path / layout.TRACING).read_text())
    except (OSError, ValueError):
        return {}
    return told if isinstance(told, dict) else {}


def begin(path: Path, ranks: Ranks) -> None:
    """Write what is known as training begins: a rank that is killed leaves it."""
    reference = ranks.peers[0]
    if reference.boot == ranks.own.boot:  # one clock for both
        write_alignment(path / layout.CLOCK, ClockAlignment())
    facts = HostFacts(
        host_name=ranks.own.host, machine=platform.machine(), cpu_model=cpu_model(), cores=os.cpu_count(),
        usable_cores=len(os.sched_getaffinity(0)), kernel=platform.release(), versions=versions(),
    )  # fmt: skip
    HostRecords(path).write_facts(facts)


def end(path: Path, *, rank: int, iterations: int, seconds: float, failure: str) -> None:
    """Write how the rank ended: outcome.json. Raises: ArchiveError."""
    outcome = WorkerOutcome.of(
        Cause.FAILED if failure else Cause.FINISHED,
        reason=failure, rank=rank, iterations_done=iterations, seconds=seconds, ended_s=time.time(),
    )  # fmt: skip
    HostRecords(path).write_outcome(outcome)


def tell(path: Path, ranks: Ranks, told: Mapping[str, Any]) -> None:
    """Write ``tracing.json``: which rank of how many, what was hooked, what was not and why. Raises: OSError."""
    content = {
        "format": FORMAT,
        "rank": ranks.own.rank,
        "world_size": ranks.world_size,
        "pid": ranks.own.pid,
        "boot": ranks.own.boot,
        "attempt": attempt(),
        "machines": 0 if ranks.missing else len({peer.boot for peer in ranks.peers}),
        "script": sys.argv[0] if sys.argv else "",  # not what follows: it may be a secret
        "directory": directory(),
        "began_in": os.environ.get(DIRECTORY) or os.environ.get("PWD", ""),  # a shell's, where no command was traced
        "clocks": {"own_ns": time.monotonic_ns(), "unix_ns": time.time_ns()},  # for traces that carry times of a day
        "versions": versions(),
        **told,
    }
    with whole(path / layout.TRACING) as place:
        place.write_text(json.dumps(content, indent=1) + "\n")


def remove(path: Path) -> None:
    """Nothing is left of it, nor of an empty folder above."""
    shutil.rmtree(path, ignore_errors=True)
    with contextlib.suppress(OSError):  # others are in it, or have removed it
        path.parent.rmdir()


def versions() -> dict[str, str]:
    """Of what is imported by now."""
    found = {"e2c_dl": __version__, "python": platform.python_version()}
    for name in LIBRARIES:
        version = getattr(sys.modules.get(name), "__version__", None)
        if version is not None:
            found[name] = str(version)
    return found


def of_environment() -> tuple[int, int]:
    """(rank, world size) as the launcher says it; (0, 1) where none does."""
    for rank, size in (("E2CDL_RANK", "E2CDL_WORLD_SIZE"), ("RANK", "WORLD_SIZE"), ("HOROVOD_RANK", "HOROVOD_SIZE")):
        found, of = os.environ.get(rank, ""), os.environ.get(size, "")
        if found.isdecimal() and of.isdecimal():
            return int(found), int(of)
    return 0, 1
