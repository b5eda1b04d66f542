"""How long the thread that trains waited for a processor that others had, which it could have run on.

A rank that shares its processors with other ranks or programs is slow whenever these run, in whichever phase it is:
no span tells that from work of its own. Linux counts for each thread how long it waited so, or was withheld one by a
quota (schedstat). Of an iteration its own span tells it, of all ``processor`` of facts.json.
"""

from __future__ import annotations

import os
import threading
from collections.abc import Callable, Mapping
from functools import partial
from pathlib import Path
from typing import Any

from e2c_dl.archive.records import ProcessorFacts
from e2c_dl.trace.recording.descriptors import identity, is_still
from e2c_dl.tracing.rows import Processor
from e2c_dl.tracing.samplers.counters import Counters

MOST_BYTES = 96  # of three numbers


class Processors(Counters):
    """Of the thread that makes it, or another one that trains later. ``root``: below which /proc is."""

    def __init__(self, root: Path = Path("/")) -> None:
        super().__init__("how long it waited for a processor")
        self._tasks = root / "proc/self/task"
        self._thread = 0
        self._file: int | None = None  # opened once: a look takes 2 us then
        self._opened = (0, 0)
        self._begun = Processor(0, 0)

    def begin(self) -> bool:
        self._thread = threading.get_ident()
        counts = self._tasks / f"{threading.get_native_id()}/schedstat"
        try:
            self._file = os.open(counts, os.O_RDONLY | os.O_CLOEXEC)
            self._opened = identity(self._file)
        except OSError:
            return False
        counted = self._counted()
        self._begun = counted or self._begun
        return counted is not None

    def facts(self) -> Mapping[str, Any]:
        counted = self._counted()
        if counted is None:
            return {}
        had = counted.since(self._begun)
        return {"processor": ProcessorFacts(ran_s=had.ran / 1e9, waited_s=had.waited / 1e9)}

    def processor(self) -> Callable[[], bytes | None] | None:
        """By what this kernel counts."""
        if self._file is not None and threading.get_ident() != self._thread:  # who asks trains
            self._close()
            self.begin()
        return None if self._file is None else partial(os.pread, self._file, MOST_BYTES, 0)

    def on_end(self) -> None:
        """As any."""
        try:
            super().on_end()
        finally:
            self._close()

    def _close(self) -> None:
        if self._file is not None and is_still(self._file, self._opened):
            os.close(self._file)
        self._file = None

    def _counted(self) -> Processor | None:
        """What it had so far; None: this kernel does not say."""
        if self._file is None:
            return None
        try:
            return Processor.of(os.pread(self._file, MOST_BYTES, 0))
        except OSError:  # a script may close what it did not open
            return None
