"""Shaping by tc on the hosts themselves: put in force, read back and cleared, on all side by side.

::

    controller                                       host
    tc.commands(topology, host, ...) = values  --->  python -m e2c_dl.emulation.tc.on_host apply    JSON on stdin
                                                     every command checked, then what is in force read back
                                       <-----------  JSON on stdout, one line of reason if it failed
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any

from e2c_dl.dynamics.links import while_met
from e2c_dl.emulation import tc
from e2c_dl.scenario.model import LinkSchedule, Scenario
from e2c_dl.testbeds import programs
from e2c_dl.testbeds.base import Access
from e2c_dl.testbeds.own_programs import DIRECTORY_VARIABLE
from e2c_dl.topology import Link, Pair, Topology

_TIMEOUT_S = 60.0


def apply(accesses: Sequence[Access], topology: Topology, *, netem: bool) -> dict[str, Any]:
    """Every host's outgoing links as ``topology`` has them; host -> what is in force there, read back.

    Raises: EmulationError, naming the first host that could not do it; others may be shaped already.
    """
    reached = {access.name: access.data_address for access in accesses}
    wanted = {
        access.name: tc.commands(topology, access.name, access.data_device, reached, netem=netem) for access in accesses
    }
    return _on_all(accesses, "apply", wanted)


def show(accesses: Sequence[Access]) -> dict[str, Any]:
    """host -> what is in force on its data device. Raises: EmulationError."""
    return _on_all(accesses, "show", {})


def clear(accesses: Sequence[Access]) -> dict[str, Any]:
    """Nothing is shaped any more; host -> what is in force then. Raises: EmulationError."""
    return _on_all(accesses, "clear", {access.name: tc.clear(access.data_device) for access in accesses})


def _on_all(accesses: Sequence[Access], verb: str, commands: Mapping[str, Sequence[tc.Command]]) -> dict[str, Any]:
    def one(access: Access) -> programs.Answer:
        request = json.dumps({"device": access.data_device, "commands": commands.get(access.name, ())})
        # What ends the run on another machine finds the program by its environment.
        mark = {DIRECTORY_VARIABLE: access.run_dir} if access.run_dir else {}
        argv = programs.python(access, "-m", "e2c_dl.emulation.tc.on_host", verb, environ=mark)
        return programs.answer(access, argv, request, _TIMEOUT_S)

    answers = programs.on_all(accesses, one)  # all end before a failure is raised: none is left running on a host
    return {access.name: answers[access.name].checked(access) for access in accesses}


def at_most(scenario: Scenario) -> Topology:
    """The emulated topology, each link with the greatest delay and loss of its schedule and faults, or more."""
    topology = scenario.emulated_topology()
    links: dict[Pair, Link] = dict(topology.links)
    for pair, schedule in scenario.schedules.links.items():
        links[pair] = scenario.what_if.link(pair, _grown(topology.link(*pair), schedule))
    for fault in scenario.injected.faults:
        for pair in fault.links:
            met = while_met(links[pair], fault)
            links[pair] = replace(links[pair], delay_s=met.delay_s, loss=met.loss, burst=met.burst)
    return replace(topology, links=links)


def _grown(link: Link, schedule: LinkSchedule) -> Link:
    delay_s = link.delay_s if schedule.delay_s is None else max(link.delay_s, schedule.delay_s.greatest)
    loss = link.loss if schedule.loss is None else max(link.loss, schedule.loss.greatest)
    rate_bps = link.rate_bps if schedule.rate_bps is None else schedule.rate_bps.greatest
    return replace(link, rate_bps=rate_bps, delay_s=delay_s, loss=loss)
