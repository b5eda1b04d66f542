"""Record of a run: the content of ``run.json``, written while it happens and read back as one frozen Run.

The keys are a closed set, so that a misspelt one is found when it is written and not when it is missed. Whatever has no
key of its own goes under ``facts``. A run.json is valid JSON at every moment of a run, and complete in the sense that
every key has a value; the values a run has not reached yet are the defaults below.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass, field, fields
from difflib import get_close_matches
from enum import Enum
from pathlib import Path
from typing import Any

import msgspec

from e2c_dl.archive.layout import RUN
from e2c_dl.beneath import Place
from e2c_dl.codec import DAMAGED, convert
from e2c_dl.errors import ArchiveError, NoArchive

RUN_FORMAT = 2
RENAMED = {"could_not_honour": "limitations"}
"""Keys of format 1, whose archives are read as if they had today's."""


class Outcome(Enum):
    """How a run ended. An archive that still says RUNNING was left by a process that was killed, or is not over."""

    RUNNING = "running"
    FINISHED = "finished"
    FAILED = "failed"
    INTERRUPTED = "interrupted"


@dataclass(frozen=True, kw_only=True)
class StepRecord:
    """One step of a campaign: check, deploy, emulate, train, collect, ..."""

    step: str
    seconds: float
    outcome: str  # done, failed, interrupted, skipped


@dataclass(frozen=True, kw_only=True)
class Run:
    """One run's facts. Times are ISO 8601 with an offset, as in ``2025-01-31T10:00:00+00:00``."""

    format: int = RUN_FORMAT
    run_id: str
    outcome: Outcome = Outcome.RUNNING
    what_happened: tuple[str, ...] = ()  # sentences, oldest first: what went wrong or was unusual
    limitations: tuple[str, ...] = ()  # sentences: what was asked for and not given
    scenario: str = ""  # its name
    testbed: str = ""  # local, docker, g5k, ...
    command: tuple[str, ...] = ()  # what was typed, as words
    started: str = ""
    ended: str = ""  # empty until the run is over
    versions: Mapping[str, str] = field(default_factory=dict)  # program or library -> version
    host_facts: Mapping[str, Any] = field(default_factory=dict)  # host -> hardware, kernel, ...
    seeds: Mapping[str, int] = field(default_factory=dict)  # what was drawn -> from which seed
    emulation: Mapping[str, Any] = field(default_factory=dict)  # backend; compute: method, cores and speed by host; ...
    hosts: tuple[Mapping[str, Any], ...] = ()  # name, layer, rank, address, ...
    steps: tuple[StepRecord, ...] = ()
    injected: Mapping[str, Any] = field(default_factory=dict)  # ground truth: seed, compute, links
    licence: str = ""  # of the data, an SPDX name or an address; empty: none is stated
    facts: Mapping[str, Any] = field(default_factory=dict)  # anything else worth keeping


class _Compute(msgspec.Struct, frozen=True):
    oversubscribed: bool = False


class _Emulation(msgspec.Struct, frozen=True):
    """What is asked of ``emulation`` by name; it may hold more."""

    backend: str = "none"
    compute: _Compute = _Compute()


KEYS = tuple(f.name for f in fields(Run))


def check_key(key: str, where: str) -> None:
    """Nothing, if ``key`` is one of a Run's. Raises: ArchiveError, naming the closest key."""
    if key not in KEYS:
        close = get_close_matches(key, KEYS, n=1)
        remedy = f"did you mean {close[0]!r}?" if close else "put it under 'facts'"
        raise ArchiveError(f"{where}: unknown key {key!r}; {remedy}")


def plain(value: Any) -> Any:
    """``value`` for json.dumps: mappings with string keys, enums by value, paths and other odd leaves as text."""
    if isinstance(value, Enum):
        return value.value
    if isinstance(value, StepRecord):
        return {"step": value.step, "seconds": value.seconds, "outcome": value.outcome}
    if isinstance(value, Mapping):
        return {str(k): plain(v) for k, v in value.items()}
    if isinstance(value, (list, tuple)):
        return [plain(v) for v in value]
    return str(value) if isinstance(value, Path) else value


def merge(old: Mapping[str, Any], new: Mapping[str, Any]) -> dict[str, Any]:
    """``old`` with ``new`` over it: mappings merge key by key, at any depth; everything else is replaced."""
    merged = dict(old)
    for key, value in new.items():
        before = merged.get(key)
        both = isinstance(before, Mapping) and isinstance(value, Mapping)
        merged[key] = merge(before, value) if both else value  # type: ignore[arg-type]  # both are mappings
    return merged


def to_bytes(facts: Mapping[str, Any], where: str) -> bytes:
    """``facts`` as the bytes of a JSON file. Raises: ArchiveError for values JSON does not know (NaN, objects)."""
    try:
        text = json.dumps(plain(facts), indent=2, ensure_ascii=False, allow_nan=False)  # others' parsers refuse NaN
    except (TypeError, ValueError) as error:
        raise ArchiveError(f"{where}: a fact cannot be written as JSON: {error}; record numbers and text") from error
    # A lone surrogate (a file name that is not UTF-8) becomes \udcxx, which JSON readers turn back into itself.
    return text.encode("utf-8", "backslashreplace") + b"\n"


def from_mapping(facts: Any, where: str) -> Run:
    """The Run that ``facts`` (a parsed run.json) describes. Raises: ArchiveError, one line."""
    if not isinstance(facts, dict):
        raise ArchiveError(f"{where}: is not a JSON object; {DAMAGED}")
    if facts.get("format") != RUN_FORMAT:  # first: another may have other keys
        raise ArchiveError(f"{where}: format {facts.get('format')!r}, this program reads {RUN_FORMAT}; use its version")
    for key in facts:
        check_key(key, where)  # msgspec passes over keys it does not know
    run = convert(facts, Run, where, remedy=DAMAGED)
    convert(run.emulation, _Emulation, f"{where}: emulation", remedy=DAMAGED)
    return run


def read_facts(path: Path) -> dict[str, Any]:
    """The content of the run.json in ``path``, in today's format, unchecked but for being an object.

    Raises: ArchiveError.
    """
    file = Place(path) / RUN
    if not file.exists():
        raise NoArchive(f"{path}: is no archive (it has no {RUN}); name the directory that a run printed")
    try:
        # not by msgspec: file names that are not UTF-8 are lone surrogates here
        facts = json.loads(file.read(), parse_constant=_refused)
    except (ValueError, RecursionError) as error:
        raise ArchiveError(f"{file}: is not valid JSON ({error}); {DAMAGED}") from error
    if not isinstance(facts, dict):
        raise ArchiveError(f"{file}: is not a JSON object; {DAMAGED}")
    if facts.get("format") == 1:
        return {RENAMED.get(str(key), str(key)): value for key, value in facts.items()} | {"format": RUN_FORMAT}
    return facts


def _refused(constant: str) -> Any:
    raise ValueError(f"{constant} is no number")


def read_run(path: Path) -> Run:
    """The run of the archive at ``path``. Raises: ArchiveError if there is no run.json or it cannot be understood."""
    return from_mapping(read_facts(path), str(path / RUN))
