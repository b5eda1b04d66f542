"""What a sampler is: it measures something beside the spans while a script trains, such as its sockets and the clocks.

A sampler is made when a rank's trace begins, in the rank's own process. All its methods are called from the thread that
trains; what one raises ends that sampler, is said in tracing.json, and never reaches the script.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Iterable, Mapping
from pathlib import Path
from typing import Any, Protocol

from e2c_dl.trace.recording.errands import Errands
from e2c_dl.tracing.rendezvous import Ranks

FLUSH_EVERY_S = 0.9
"""Between two writings of what samplers find, which a kill costs. Rarer than spans: counters tell what was lost."""


def unknown() -> None:
    """Nobody knows what the thread that trains had of its processors."""


class Recording(Protocol):
    """What a sampler may know of the trace that it samples for."""

    @property
    def folder(self) -> Path:
        """The rank's own: hosts/NAME."""
        ...

    @property
    def iteration(self) -> int:
        """The one under way; -1 before the first."""
        ...

    @property
    def errands(self) -> Errands:
        """The thread that does what is done now and then."""
        ...

    @property
    def cap_bytes(self) -> int:
        """Size that a file may have which grows while training goes on."""
        ...

    def limited(self, sentence: str) -> None:
        """One more sentence of what could not be seen."""
        ...


class Sampler(ABC):
    """Measures beside the spans."""

    def offers(self) -> Mapping[str, Any]:
        """What the other ranks are told of this one, JSON values: ``Peer.offers``. Before ranks know each other."""
        return {}

    @abstractmethod
    def on_ready(self, ranks: Ranks, recording: Recording) -> None:
        """All ranks are known, and this rank's folder is there."""

    def at_ends(self) -> Callable[[int, int], object] | None:
        """What is called where an iteration ends, with the number of the next, and when that was; None: nothing.

        It takes microseconds, and never raises.
        """
        return None

    def processor(self) -> Callable[[], bytes | None] | None:
        """What says how long this thread, which trains, has run and waited for a processor, as ``Processor.of`` reads.

        Any thread may ask it of this one. It takes microseconds, and raises OSError alone. None: nothing.
        """
        return None

    def on_rest(self, resting: bool) -> None:  # noqa: B027  # most go on meanwhile
        """The hooks are taken away for a while, or are back: threads rest as long."""

    @abstractmethod
    def on_end(self) -> None:
        """Training is over: write down what is left, stop threads."""


def offered(samplers: Iterable[Sampler]) -> dict[str, Any]:
    """What all of them offer the other ranks."""
    return {name: offer for sampler in samplers for name, offer in sampler.offers().items()}
