"""The seam between a virtual worker and the times of its host: by a stored profile, or as they were measured.

::

    HostModel --profile, factor, speed--> HostPace                  computing.py
              --pace--------------------> whatever else says how long computing takes here
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple, Protocol

from e2c_dl.trace.model import Phase
from e2c_dl.worlds.virtual.kernel import Pauses


class Segment(NamedTuple):
    """A piece of a gradient, times in ns from its begin."""

    phase: Phase
    bucket: int
    start_ns: int
    end_ns: int


class Pace(Protocol):
    """The durations of one rank's host in one run, in ns; asked in order of time, as each begins."""

    pauses: Pauses

    def gradient(self, samples: int, begin_ns: int) -> Sequence[Segment]:
        """A gradient of ``samples`` samples that begins at ``begin_ns``, piece by piece."""
        ...

    def copied_ns(self, nbytes: int, begin_ns: int) -> int:
        """How long a copy of a vector of ``nbytes`` takes that begins at ``begin_ns``."""
        ...

    def accumulated_ns(self, nbytes: int, begin_ns: int) -> int:
        """The same of adding one to another."""
        ...

    def scaled_ns(self, nbytes: int, begin_ns: int) -> int:
        """The same of multiplying one by a number."""
        ...

    def stepped_ns(self, begin_ns: int) -> int:
        """How long the next step of the optimizer, which begins at ``begin_ns``, takes."""
        ...

    def evaluated_ns(self, begin_ns: int) -> int:
        """When an evaluation that begins at ``begin_ns`` ends."""
        ...
