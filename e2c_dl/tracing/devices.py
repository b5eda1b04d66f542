"""Whether a traced rank computes on a GPU: ``device`` of ``gpu`` in facts.json, once its script has begun to.

A GPU works after the thread that trains has asked for it: spans are when that was, and where the script waits for what
it asked for, as by ``loss.item()``, no hook sees. The diagnosis must know: the longest such wait is not the slowest's.
"""

from __future__ import annotations

import sys
from collections.abc import Callable, Mapping
from typing import Any

from e2c_dl.archive.host_records import HostRecords
from e2c_dl.errors import ArchiveError
from e2c_dl.tracing.rendezvous import Ranks
from e2c_dl.tracing.samplers import Recording

EVERY_S = 5.0
KINDS = ("cuda", "xpu")
ASKED = "it computes on a GPU: a span is when that was asked for, and what the script waits for there has none"


class Devices:
    """A sampler, as an errand of the thread that writes, until a GPU is used."""

    def __init__(self) -> None:
        self._recording: Recording | None = None
        self._found = False

    def offers(self) -> Mapping[str, Any]:
        """Nothing: each rank has its own."""
        return {}

    def on_ready(self, ranks: Ranks, recording: Recording) -> None:
        """Looks from now on: many scripts meet before they choose a device."""
        self._recording = recording
        if self._look() is not None:
            recording.errands.add(self._look, EVERY_S)

    def at_ends(self) -> Callable[[int, int], object] | None:
        """Nothing: it is the same in all iterations."""

    def on_rest(self, resting: bool) -> None:
        """It goes on."""

    def on_end(self) -> None:
        """A last look."""
        if self._recording is not None:
            self._recording.errands.remove(self._look)
            self._look()

    def _look(self) -> float | None:
        """Seconds until the next look; None: it is known by now, or cannot be written, as is said."""
        device, recording = in_use(), self._recording
        if recording is None or self._found or device is None:
            return None if self._found else EVERY_S
        self._found = True
        recording.limited(ASKED)
        try:
            HostRecords(recording.folder).amend_facts(gpu={"device": device})
        except ArchiveError as error:
            recording.limited(f"on which device it computes is not recorded: {error}")
        return None


def in_use() -> str | None:
    """The GPU that torch uses in this process, such as ``cuda:0``; None: none by now. Nothing is begun to find out."""
    for kind in KINDS:
        part = getattr(sys.modules.get("torch"), kind, None)
        if part is not None and part.is_initialized():
            return f"{kind}:{part.current_device()}"
    return None
