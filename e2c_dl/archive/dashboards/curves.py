"""What a run's hosts reported while they trained, as curves over iterations: what a dashboard draws."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from datetime import datetime, timezone

from e2c_dl.archive.read import ReadArchive
from e2c_dl.errors import ArchiveError

TAGS = ("loss", "test_loss", "accuracy")
"""Fields of a Progress that are curves; ``loss`` is that of training batches."""


@dataclass(frozen=True, kw_only=True)
class Point:
    """``value`` of the curve ``tag`` of ``host``, when it had finished ``iteration`` iterations."""

    host: str
    tag: str
    iteration: int
    elapsed_s: float  # since this host began to train
    value: float


def points(archive: ReadArchive) -> tuple[Point, ...]:
    """Every value that was reported, host by host, oldest first. Raises: ArchiveError, if there is none."""
    found = tuple(point for host in archive.hosts for point in _of(archive, host))
    if not found:
        raise ArchiveError(f"{archive.path}: no host reported a loss or an accuracy: nothing was trained")
    return found


def _of(archive: ReadArchive, host: str) -> Iterator[Point]:
    for line in archive.host(host).progress():
        for tag in TAGS:
            value = getattr(line, tag)
            if value is not None:
                yield Point(host=host, tag=tag, iteration=line.iteration, elapsed_s=line.elapsed_s, value=value)


def began_s(archive: ReadArchive) -> float:
    """When the run began, in seconds of Unix time; 0.0, if run.json does not say it.

    A point is put ``elapsed_s`` behind it: what set the run up is left out of the picture. Raises: ArchiveError.
    """
    started = archive.run.started
    if not started:
        return 0.0
    try:
        when = datetime.fromisoformat(started)
    except ValueError as error:
        raise ArchiveError(f"{archive.path}: run.json: started: {started!r} is no date; e2c-dl verify it") from error
    return (when if when.tzinfo else when.replace(tzinfo=timezone.utc)).timestamp()
