"""How a worker ended, and how far it has come: ``outcome.json``, ``progress.jsonl``.

The outcome's room on the disk is taken at the start, so that a full disk can still be told.
"""

from __future__ import annotations

import json
import os
import time
from dataclasses import asdict, dataclass
from pathlib import Path

from e2c_dl.archive import layout
from e2c_dl.errors import TrainingError
from e2c_dl.worlds.live import Progress

_RESERVE = ".outcome"
_RESERVED_BYTES = 4096


@dataclass(frozen=True, kw_only=True)
class Outcome:
    """``status`` is finished, failed or stopped; ``reason`` is one line, empty if finished."""

    status: str
    reason: str
    rank: int
    iterations_done: int
    seconds: float  # of training, from the first iteration's start
    loss: float | None = None  # on the test samples, at the end; rank 0 only
    accuracy: float | None = None


def reserve(run_dir: Path) -> None:
    """Take the outcome's room. Raises: TrainingError if there is none."""
    try:
        (run_dir / _RESERVE).write_text(" " * _RESERVED_BYTES)
        (run_dir / layout.OUTCOME).unlink(missing_ok=True)
    except OSError as error:
        raise TrainingError(f"{run_dir}: cannot be written: {error.strerror}; make room there") from error


def write(run_dir: Path, outcome: Outcome) -> None:
    """Write ``outcome`` into the room taken for it, then give it its name: there is never half of one.

    Raises: OSError.
    """
    text = json.dumps({**asdict(outcome), "reason": outcome.reason[: _RESERVED_BYTES // 2]}) + "\n"
    descriptor = os.open(run_dir / _RESERVE, os.O_WRONLY | os.O_CREAT, 0o644)
    try:
        os.write(descriptor, text.encode())
        os.truncate(descriptor, len(text.encode()))
        os.fsync(descriptor)
    finally:
        os.close(descriptor)
    (run_dir / _RESERVE).rename(run_dir / layout.OUTCOME)


class ProgressLog:
    """Appends a JSON line per iteration: iteration (from 1), iterations, loss, accuracy, elapsed_s, remaining_s."""

    def __init__(self, path: Path, iterations: int) -> None:
        self.iterations_done = 0
        self._iterations = iterations
        self._path = path
        self._begin = self._last = time.monotonic()
        try:
            self._file = path.open("w", buffering=1)
        except OSError as error:
            raise TrainingError(f"{path}: cannot be written: {error.strerror}; make room there") from error

    @property
    def seconds(self) -> float:
        """From the start of training to the last report."""
        return self._last - self._begin

    def begin(self) -> None:
        """Training starts now."""
        self._begin = self._last = time.monotonic()

    def report(self, progress: Progress) -> None:
        """Append one line. Raises: TrainingError if it cannot be written."""
        self.iterations_done = progress.iteration + 1
        self._last = time.monotonic()
        self._append(
            rank=progress.rank, iteration=self.iterations_done, loss=progress.loss, accuracy=progress.accuracy,
        )  # fmt: skip

    def evaluated(self, rank: int, loss: float, accuracy: float) -> None:
        """Append the line of the final evaluation; its loss is on the test samples. Raises: TrainingError."""
        self._append(rank=rank, iteration=self.iterations_done, test_loss=loss, loss=None, accuracy=accuracy)

    def close(self) -> None:
        self._file.close()

    def _append(self, **fields: float | None) -> None:
        per_iteration_s = self.seconds / max(1, self.iterations_done)
        remaining_s = per_iteration_s * (self._iterations - self.iterations_done)
        line = {
            **fields, "iterations": self._iterations,
            "elapsed_s": round(self.seconds, 3), "remaining_s": round(remaining_s, 3),
        }  # fmt: skip
        try:
            self._file.write(json.dumps(line) + "\n")
        except OSError as error:
            raise TrainingError(f"{self._path}: cannot be written: {error.strerror}; make room there") from error
