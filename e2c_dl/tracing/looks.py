"""Looks at what the kernel says of the thread that trains, where iterations begin and end.

What is seen is taken as it is, and read by the thread that writes (``Processor.of``): where an iteration ends caches
are cold, and to read it there takes three times as long as to look.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Sequence

from e2c_dl.tracing.samplers.sampler import Sampler, unknown


class Looks:
    """Of one thread, the one that was here last. ``look``: one look, by built-ins alone; raises: OSError."""

    def __init__(self, samplers: Sequence[Sampler] = ()) -> None:
        self.look: Callable[[], bytes | None] = unknown
        self._samplers, self._thread = samplers, 0
        self.here()

    def here(self) -> None:
        """This thread trains from now on."""
        if self._thread != threading.get_ident():
            self._thread, found = threading.get_ident(), [sampler.processor() for sampler in self._samplers]
            self.look = next((each for each in found if each is not None), unknown)

    def seen(self) -> bytes | None:
        """By one look; None: nobody knows."""
        try:
            return self.look()
        except OSError:  # a script may close what it did not open
            return None
