"""Which samplers each rank has."""

from __future__ import annotations

from collections.abc import Callable

from e2c_dl.tracing.clocks import Clocks
from e2c_dl.tracing.samplers import Sampler

SAMPLERS: tuple[Callable[[], Sampler], ...] = (Clocks,)
"""Each rank has one of each."""
