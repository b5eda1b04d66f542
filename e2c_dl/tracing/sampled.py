"""Which samplers each rank has."""

from __future__ import annotations

from collections.abc import Callable

from e2c_dl.tracing.clocks import Clocks
from e2c_dl.tracing.devices import Devices
from e2c_dl.tracing.ports import Ports
from e2c_dl.tracing.samplers import Sampler
from e2c_dl.tracing.sockets import Sockets

SAMPLERS: tuple[Callable[[], Sampler], ...] = (Clocks, Sockets, Ports, Devices)
"""Each rank has one of each."""
