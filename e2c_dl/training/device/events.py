"""Events: marks in a device's stream of work, which it passes when all that was asked of it before is done.

``CudaEvents`` are CUDA's. ``HostEvents`` are those of a device that does everything at once: the processor itself,
whose clock may be told to be wrong. What is written for one runs on the other.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import Protocol

import torch


class Event(Protocol):
    """One mark."""

    def wait(self) -> None:
        """Return when the device has passed it; nothing is added to the device's work."""

    def ms_until(self, later: Event) -> float:
        """Milliseconds of the device's own clock from this mark to ``later``; both have been passed."""


class Events(Protocol):
    """Where marks come from."""

    @property
    def device(self) -> torch.device:
        """Whose stream they are set in."""

    def set(self) -> Event:
        """A mark behind all work that was asked for by now. Does not wait."""


class CudaEvents:
    """Marks in the current stream of a GPU."""

    def __init__(self, index: int) -> None:
        self.device = torch.device("cuda", index)

    def set(self) -> CudaEvent:
        """A mark in the stream that is current in this thread."""
        with torch.cuda.device(self.device):
            event = torch.cuda.Event(enable_timing=True, blocking=True)  # type: ignore[no-untyped-call]  # no core spins
            event.record()
        return CudaEvent(event)


class CudaEvent:
    """One of CUDA's."""

    def __init__(self, event: torch.cuda.Event) -> None:
        self._event = event

    def wait(self) -> None:
        self._event.synchronize()

    def ms_until(self, later: Event) -> float:
        assert isinstance(later, CudaEvent)
        return float(self._event.elapsed_time(later._event))


class HostEvents:
    """Marks of the processor, passed as they are set. ``clock`` is its own, in ns."""

    device = torch.device("cpu")

    def __init__(self, clock: Callable[[], int] = time.monotonic_ns) -> None:
        self._clock = clock

    def set(self) -> HostEvent:
        """A mark at this moment."""
        return HostEvent(self._clock())


class HostEvent:
    """One moment of the processor's clock."""

    def __init__(self, at_ns: int) -> None:
        self._at_ns = at_ns

    def wait(self) -> None:
        """Nothing is under way."""

    def ms_until(self, later: Event) -> float:
        assert isinstance(later, HostEvent)
        return (later._at_ns - self._at_ns) / 1e6
