"""Links put in force by the workers themselves: under plain E2Clab there is no testbed that does.

::

    every host   what can its kernel do?      -> gathered: what all can do, so that all links are of one kind
                 tc on its training device    -> gathered: training begins when all have tried
                 ... training ...
                 the device as its kernel makes it

What E2Clab applied before goes: of its rules a host keeps only the last, and here stands the whole topology. A host
whose links cannot be put in force trains all the same: its record says why, and the archive what was not applied.
"""

from __future__ import annotations

import asyncio
import os
import sys
from contextlib import AsyncExitStack
from dataclasses import replace

from msgspec import structs

from e2c_dl.archive.records import Deployed
from e2c_dl.drivers.live.control import Control
from e2c_dl.drivers.live.members import Assignment, Member
from e2c_dl.emulation import tc
from e2c_dl.emulation.backend import Backend
from e2c_dl.emulation.tc import on_host
from e2c_dl.errors import EmulationError
from e2c_dl.testbeds.machines import facts, host_side


async def put_in_force(
    assignment: Assignment, control: Control, resources: AsyncExitStack
) -> tuple[Assignment, Deployed | None]:
    """``assignment`` with the back end that emulates its links now, until ``resources`` are released, and the record.

    All ranks call it together; where a testbed emulates, nothing is done. Raises: Aborted.
    """
    own = assignment.own
    if not own.own_emulation:
        return assignment, None
    can, why = await asyncio.to_thread(able, own.data_device)
    backend = Backend.least(Backend(each) for each in await control.gather("backends", can.value))
    members = [structs.replace(member, backend=backend) for member in assignment.members]
    assignment, failure = replace(assignment, members=tuple(members)), ""
    if backend is not Backend.NONE:
        resources.callback(_cleared, own.data_device or "")
        failure = await asyncio.to_thread(_applied, assignment)
    if failure:  # nothing stands here that an agent could change
        members[assignment.rank] = structs.replace(assignment.own, backend=Backend.NONE)
        assignment = replace(assignment, members=tuple(members))
    await control.barrier("links in force")
    return assignment, Deployed(
        address=own.node or own.address, data_address=own.data_address, data_device=own.data_device,
        versions=own.versions, backend=backend.value, why=why, failure=failure,
    )  # fmt: skip


def able(device: str | None) -> tuple[Backend, str]:
    """The most that this host can do for its links, and why it is no more; "" if it is all."""
    if device is None:
        return Backend.NONE, "nobody said which device carries training"
    return facts.able(os.getuid(), host_side.qdisc_problem, "its worker")


def _applied(assignment: Assignment) -> str:
    """Why this host's links are not in force; "" if they are."""
    own: Member = assignment.own
    topology, device = assignment.scenario.emulated_topology(), own.data_device or ""
    addresses = {member.name: member.data_address for member in assignment.members}
    try:
        on_host.put_in_force(
            device, tc.commands(topology, own.name, device, addresses, netem=own.backend is Backend.TC)
        )
    except EmulationError as error:
        return str(error)
    return ""


def _cleared(device: str) -> None:
    try:
        on_host.clear(device)
    except EmulationError as error:  # training is over: it is told, and changes no result
        sys.stderr.write(f"{error}\n")
