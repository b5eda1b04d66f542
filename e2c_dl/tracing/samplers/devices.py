"""Whether a traced rank computes on a GPU: ``device`` of ``gpu`` in facts.json, once its script has begun to.

A GPU works after the thread that trains has asked for it: spans are when that was, and where the script waits for what
it asked for, as by ``loss.item()``, no hook sees. The diagnosis must know: the longest such wait is not the slowest's.
"""

from __future__ import annotations

import sys

from e2c_dl.archive.host_records import HostRecords
from e2c_dl.errors import ArchiveError
from e2c_dl.tracing.rendezvous import Ranks
from e2c_dl.tracing.samplers.sampler import Recording, Sampler

EVERY_S = 5.0
KINDS = ("cuda", "xpu")
ASKED = "it computes on a GPU: a span is when that was asked for, and what the script waits for there has none"


class Devices(Sampler):
    """An errand of the thread that writes, until a GPU is used: which one the thread that trains says at its end."""

    def __init__(self) -> None:
        self._recording: Recording | None = None
        self._told: str | None = None

    def on_ready(self, ranks: Ranks, recording: Recording) -> None:
        """Looks from now on: many scripts meet before they choose a device."""
        self._recording = recording
        if self._tells(in_use()) is not None:
            recording.errands.add(self._look, EVERY_S)

    def on_end(self) -> None:
        """A last look."""
        if (recording := self._recording) is not None:
            recording.errands.remove(self._look)
            self._tells(in_use())
            self._recording = None

    def _look(self) -> float | None:
        """As an errand: CUDA's current device is of each thread by itself, so that this one knows the kind alone."""
        device = in_use()
        return self._tells(device and device.partition(":")[0])

    def _tells(self, device: str | None) -> float | None:
        """Seconds until the next look; None: it is known by now, or cannot be written, as is said."""
        recording = self._recording
        if recording is None or device is None:
            return None if recording is None else EVERY_S
        if device == self._told:
            return None
        if self._told is None:
            recording.limited(ASKED)
        self._told = device
        try:
            HostRecords(recording.folder).amend_facts(gpu={"device": device})
        except ArchiveError as error:
            recording.limited(f"on which device it computes is not recorded: {error}")
        return None


def in_use() -> str | None:
    """The GPU that torch uses in this thread, such as ``cuda:0``; None: none by now. Nothing is begun to find out."""
    for kind in KINDS:
        part = getattr(sys.modules.get("torch"), kind, None)
        if part is not None and part.is_initialized():
            return f"{kind}:{part.current_device()}"
    return None
