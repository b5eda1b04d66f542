"""Which samplers each rank has."""

from __future__ import annotations

from collections.abc import Callable

from e2c_dl.tracing.samplers.clocks import Clocks
from e2c_dl.tracing.samplers.devices import Devices
from e2c_dl.tracing.samplers.ports import Ports
from e2c_dl.tracing.samplers.processors import Processors
from e2c_dl.tracing.samplers.sampler import Sampler
from e2c_dl.tracing.samplers.sockets import Sockets

SAMPLERS: tuple[Callable[[], Sampler], ...] = (Clocks, Sockets, Ports, Processors, Devices)
"""Each rank has one of each."""
