"""Logs of how far a worker has come: ``setup.jsonl`` until it trains, then ``progress.jsonl``."""

from __future__ import annotations

import time
from contextlib import suppress
from io import RawIOBase
from pathlib import Path
from typing import Any

from e2c_dl.archive.host_records import HostRecords, report_line
from e2c_dl.archive.records import Doing, Noticed, Progress
from e2c_dl.errors import TrainingError
from e2c_dl.worlds import live


class SetupLog:
    """Appends a :class:`~e2c_dl.archive.records.Doing` or ``Noticed`` per line.

    Raises: TrainingError if it cannot be created.
    """

    def __init__(self, records: HostRecords) -> None:
        self._file = _opened(records.setup_file)

    def tell(self, told: Doing | Noticed) -> None:
        """Append one line, if there is room: a run does not end for what only says how it goes on."""
        with suppress(OSError):
            self._file.write(report_line(told))

    def close(self) -> None:
        with suppress(OSError):
            self._file.close()


class ProgressLog:
    """Appends a :class:`~e2c_dl.archive.records.Progress` per iteration, and one of the final evaluation."""

    def __init__(self, records: HostRecords, rank: int) -> None:
        self.iterations_done = 0
        self._rank = rank
        self._share: live.Share | None = None
        self._curve: str | None = None
        self._path = records.progress_file
        self._begin = self._last = time.monotonic()  # not wall clock, which may be set meanwhile
        self._file = _opened(self._path)

    @property
    def seconds(self) -> float:
        """From the start of training to the last report."""
        return self._last - self._begin

    def begin(self, share: live.Share, curve: str) -> None:
        """Training begins, until ``share`` is used; ``curve`` says whose parameters are evaluated meanwhile."""
        self._share, self._curve = share, curve
        self._begin = self._last = time.monotonic()

    def report(self, progress: live.IterationDone) -> None:
        """Append one line. Raises: TrainingError if it cannot be written."""
        self.iterations_done = progress.iteration + 1
        self._last = time.monotonic()
        evaluated = None if progress.accuracy is None else self._curve
        self._append(evaluated, loss=progress.loss, accuracy=progress.accuracy)

    def evaluated(self, loss: float, accuracy: float, model: str) -> None:
        """Append the line of the final evaluation, of ``model``; its loss is on the test samples.

        Raises: TrainingError.
        """
        self._append(model, test_loss=loss, accuracy=accuracy)

    def close(self) -> None:
        self._file.close()

    def _append(self, model: str | None, **known: Any) -> None:
        done, share = self.iterations_done, self._share
        used = share.used(done, self.seconds) if share else 0.0
        iterations = share.iterations or 0 if share else 0
        line = Progress.at(done, iterations, self.seconds, used, model, rank=self._rank, **known)
        try:
            self._file.write(report_line(line))
        except OSError as error:
            raise TrainingError(f"{self._path}: cannot be written: {error.strerror}; make room there") from error


def _opened(path: Path) -> RawIOBase:
    try:
        return path.open("wb", buffering=0)  # who follows it sees every line at once
    except OSError as error:
        raise TrainingError(f"{path}: cannot be written: {error.strerror}; make room there") from error
