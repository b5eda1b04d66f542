"""How long the thread that trains ran, and waited for a processor that others had: ``processor`` of facts.json.

A rank that shares its processors with other ranks or programs is slow whenever these run, in whichever phase it is:
no span tells that from work of its own. Linux counts both for each thread (schedstat).
"""

from __future__ import annotations

import threading
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from e2c_dl.archive.records import ProcessorFacts
from e2c_dl.tracing.samplers.counters import Counters


class Processors(Counters):
    """Of the thread that makes it. ``root``: below which /proc is."""

    def __init__(self, root: Path = Path("/")) -> None:
        super().__init__("how long it waited for a processor")
        self._counts = root / f"proc/self/task/{threading.get_native_id()}/schedstat"
        self._begun = (0, 0)

    def begin(self) -> bool:
        counted = self._counted()
        self._begun = counted or self._begun
        return counted is not None

    def facts(self) -> Mapping[str, Any]:
        counted = self._counted()
        if counted is None:
            return {}
        ran_s, waited_s = ((now - then) / 1e9 for now, then in zip(counted, self._begun, strict=True))
        return {"processor": ProcessorFacts(ran_s=ran_s, waited_s=waited_s)}

    def _counted(self) -> tuple[int, int] | None:
        """(ns that it ran, ns that it waited for a processor) so far; None: this kernel, or nobody, says."""
        try:
            ran_ns, waited_ns, _ = self._counts.read_text().split()
            return int(ran_ns), int(waited_ns)
        except (OSError, ValueError):
            return None
