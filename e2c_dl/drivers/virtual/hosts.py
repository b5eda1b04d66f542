"""What each virtual host leaves in an archive: the files that a live worker writes, where they have a meaning.

There is one clock, so every alignment is the identity; there are no metrics of a machine, and nothing is measured of
links.
"""

from __future__ import annotations

import json
import math
from collections.abc import Sequence
from dataclasses import asdict
from pathlib import Path
from typing import Any, TextIO

import numpy as np

from e2c_dl.archive import layout
from e2c_dl.archive.progress import Progress
from e2c_dl.scenario.model import Scenario
from e2c_dl.strategies.base import Compute, Evaluation
from e2c_dl.trace.clock import write_alignment
from e2c_dl.trace.model import ClockAlignment
from e2c_dl.worlds.virtual.profile import HostModel


def span_files(archive: Path, scenario: Scenario) -> list[Path]:
    """Where the spans of each rank go, by rank; the hosts' folders are made."""
    folders = [archive / layout.HOSTS / host.name for host in scenario.topology.ranks]
    for folder in folders:
        folder.mkdir(parents=True)
    return [folder / layout.SPANS_RAW for folder in folders]


def write_facts(archive: Path, hosts: Sequence[HostModel], real: bool) -> None:
    """facts.json and clock.json of every host."""
    for host in hosts:
        folder = archive / layout.HOSTS / host.name
        write_alignment(folder / layout.CLOCK, ClockAlignment())
        times = host.profile.gradient(host.samples)
        facts = {
            "cpu_model": f"virtual, by the profile of {host.profile.model}",
            "cores": 1,
            "mathematics": "real" if real else "shapes only",
            "compute": {
                "agreed_s": [times.data_s + times.forward_s, *times.backward_s],
                "segments": ["forward", *(f"backward {bucket}" for bucket in range(len(times.backward_s)))],
                "bucket_sizes": [end - begin for begin, end in host.profile.buckets],
                "speed": 1 / host.factor,
            },
        }
        _write_json(folder / layout.FACTS, facts)


class ProgressFiles:
    """Every rank's progress.jsonl, a line per iteration. A context manager; times are virtual seconds of training."""

    def __init__(self, archive: Path, scenario: Scenario) -> None:
        self._iterations = scenario.training.iterations
        ranks = scenario.topology.ranks
        self._paths = [archive / layout.HOSTS / host.name / layout.PROGRESS for host in ranks]
        self._pending: list[list[str]] = [[] for _ in ranks]
        self.done = [0] * len(ranks)  # iterations, by rank
        self.elapsed_s = [0.0] * len(ranks)
        self._first: TextIO | None = None

    def ended(self, rank: int, iteration: int, loss: float, accuracy: float | None, elapsed_s: float) -> Progress:
        """Note that ``rank`` has ended ``iteration`` (from 0); what to tell people."""
        self.done[rank], self.elapsed_s[rank] = iteration + 1, elapsed_s
        known = None if math.isnan(loss) else loss
        self._add(rank, loss=known, accuracy=accuracy)
        return Progress(
            iteration=iteration + 1, iterations=self._iterations, loss=known, accuracy=accuracy,
            elapsed_s=elapsed_s, remaining_s=None,
        )  # fmt: skip

    def evaluated(self, rank: int, evaluation: Evaluation) -> None:
        """Note the final evaluation."""
        self._add(rank, test_loss=evaluation.loss, loss=None, accuracy=evaluation.accuracy)

    def write(self) -> None:
        """Append what was noted since the last time."""
        for path, lines in zip(self._paths, self._pending, strict=True):
            with path.open("a", encoding="utf-8") as file:
                file.writelines(lines)
            lines.clear()

    def _add(self, rank: int, **fields: float | None) -> None:
        elapsed_s, done = self.elapsed_s[rank], self.done[rank]
        remaining_s = elapsed_s / max(1, done) * (self._iterations - done)
        line = {
            "rank": rank, "iteration": done, **fields, "iterations": self._iterations,
            "elapsed_s": round(elapsed_s, 6), "remaining_s": round(remaining_s, 6),
        }  # fmt: skip
        self._pending[rank].append(json.dumps(line) + "\n")


def write_outcomes(
    archive: Path, scenario: Scenario, progress: ProgressFiles, reason: str, evaluation: Evaluation | None
) -> None:
    """outcome.json of every host: failed, with ``reason``, if that is not empty; rank 0's with ``evaluation``."""
    for rank, host in enumerate(scenario.topology.ranks):
        judged = evaluation if rank == 0 else None
        outcome: dict[str, Any] = {
            "status": "failed" if reason else "finished", "reason": reason, "rank": rank,
            "iterations_done": progress.done[rank], "seconds": round(progress.elapsed_s[rank], 6),
            **(asdict(judged) if judged else {"loss": None, "accuracy": None}),
        }  # fmt: skip
        _write_json(archive / layout.HOSTS / host.name / layout.OUTCOME, outcome)


def write_model(archive: Path, compute: Compute) -> None:
    """Rank 0's final parameters."""
    np.savez(archive / layout.MODEL, parameters=compute.parameters)


def _write_json(path: Path, content: Any) -> None:
    path.write_text(json.dumps(content, indent=2) + "\n", encoding="utf-8")
