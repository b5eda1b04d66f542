"""Where the records of simulated ranks go: kept in memory, or appended to files."""

from __future__ import annotations

import os
from collections.abc import Sequence
from pathlib import Path
from typing import Protocol

import numpy as np

from e2c_dl.errors import TrainingError
from e2c_dl.trace.model import RECORD_BYTES, SPAN, Spans
from e2c_dl.trace.recording import span_log


class Sink(Protocol):
    """Takes the records of ranks, in order of recording per rank."""

    def open(self, hosts: Sequence[tuple[str, str]]) -> None:
        """Called once, before anything is written: (host, layer) of every rank."""

    def write(self, rank: int, records: bytes) -> None:
        """Append whole records. Raises: TrainingError if they cannot be kept."""


class InMemory:
    """Keeps everything."""

    def __init__(self) -> None:
        self._records: list[bytearray] = []

    def open(self, hosts: Sequence[tuple[str, str]]) -> None:
        self._records = [bytearray() for _ in hosts]

    def write(self, rank: int, records: bytes) -> None:
        self._records[rank] += records

    def spans(self, rank: int) -> Spans:
        """Everything that ``rank`` recorded: a copy."""
        return np.frombuffer(bytes(self._records[rank]), dtype=SPAN)  # a view would keep the bytearray from growing


class InFiles:
    """One file per rank, as a Recorder writes them. ``paths`` are by rank; their folders exist.

    A file is open only while a batch is appended to it: ten thousand ranks need no ten thousand open files.
    """

    def __init__(self, paths: Sequence[Path]) -> None:
        self._paths = [os.fspath(path) for path in paths]
        self._written = [0 for _ in paths]  # spans

    def open(self, hosts: Sequence[tuple[str, str]]) -> None:
        for rank, (host, layer) in enumerate(hosts):
            self._append(rank, span_log.opening(rank, host, layer), os.O_TRUNC)

    def write(self, rank: int, records: bytes) -> None:
        self._append(rank, span_log.frames(records, number=self._written[rank]), os.O_APPEND)
        self._written[rank] += len(records) // RECORD_BYTES

    def _append(self, rank: int, content: bytes, how: int) -> None:
        path = self._paths[rank]
        try:
            file = os.open(path, os.O_WRONLY | os.O_CREAT | how, 0o644)
            try:
                remaining = memoryview(content)
                while remaining:
                    remaining = remaining[os.write(file, remaining) :]  # it may write less than it is given
            finally:
                os.close(file)
        except OSError as error:
            raise TrainingError(
                f"{path}: cannot write the trace: {error.strerror}; make room or choose another directory"
            ) from error
