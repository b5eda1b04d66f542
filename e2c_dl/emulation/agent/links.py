"""Targets of an agent's changes of links: the relay, by its socket; this host's kernel; or nothing."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Protocol

from e2c_dl.emulation import tc
from e2c_dl.emulation.agent.config import AgentConfig
from e2c_dl.emulation.backend import Backend
from e2c_dl.emulation.tc import on_host
from e2c_dl.errors import EmulationError
from e2c_dl.topology import Link, Pair, Topology

_TC = {Backend.TC.value: True, Backend.HTB.value: False}  # back end -> whether the kernel has netem


class Links(Protocol):
    """Puts links and bottlenecks in force."""

    def apply(self, links: Mapping[Pair, Link], bottlenecks: Mapping[str, float]) -> int | None:
        """When it was done, in ns of the machine's clock; None: nothing of it is done here. Raises: EmulationError."""


class KernelLinks:
    """By tc, on this host. ``topology`` is what was set up before training."""

    def __init__(self, topology: Topology, config: AgentConfig, device: str, *, netem: bool) -> None:
        self._topology, self._config, self._device, self._netem = topology, config, device, netem

    def apply(self, links: Mapping[Pair, Link], bottlenecks: Mapping[str, float]) -> int | None:
        where = (self._config.host, self._device, self._config.addresses)
        commands = tc.changes(self._topology, *where, links, bottlenecks, netem=self._netem)
        self._topology = tc.changed(self._topology, links, bottlenecks)
        return on_host.run(commands) if commands else None


class NoLinks:
    """No emulation of links that could be changed."""

    def apply(self, links: Mapping[Pair, Link], bottlenecks: Mapping[str, float]) -> int | None:
        return None


def links_of(config: AgentConfig, topology: Topology) -> tuple[Links, str]:
    """(what puts this host's links in force, that in words). Raises: EmulationError."""
    if config.backend == Backend.RELAY.value and config.relay_socket is not None:
        from e2c_dl.emulation.relay.control import RelayControl

        return RelayControl(config.relay_socket), "by the relay"
    if config.backend in _TC and config.device is not None:
        return KernelLinks(topology, config, config.device, netem=_TC[config.backend]), f"by {config.backend}"
    if config.backend == Backend.NONE.value:
        return NoLinks(), "not at all: links cannot be changed here"
    raise EmulationError(
        f"agent: back end {config.backend!r} with relay_socket {config.relay_socket!r} and device {config.device!r} "
        "does not fit; deploy the scenario again"
    )
