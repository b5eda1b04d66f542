"""A rank's mathematics, made ready to train: on torch and calibrated, or shapes alone by the scenario's profile."""

from __future__ import annotations

import asyncio
from concurrent.futures import ThreadPoolExecutor
from typing import TYPE_CHECKING, Union

import numpy as np
from msgspec.structs import replace

from e2c_dl.archive.records import ComputeFacts, HostFacts
from e2c_dl.drivers.live.calibrating import PREPARED_WITHIN_S, Tell, calibrate
from e2c_dl.drivers.live.changes import HostChanges
from e2c_dl.drivers.live.control import Control
from e2c_dl.drivers.live.facts import hardware_class, host_facts, machine_id
from e2c_dl.drivers.live.members import Assignment
from e2c_dl.drivers.live.stored import read_profile, stored_segments_s
from e2c_dl.importing import uncollected
from e2c_dl.scenario.model import SHAPES
from e2c_dl.scenario.workflow import PROFILE
from e2c_dl.training.pacing import Pacing
from e2c_dl.training.shapes import PacedShapes

if TYPE_CHECKING:  # torch takes seconds to import: that happens when all have joined, and where anything is computed
    from e2c_dl.training.compute import TorchCompute

Mathematics = Union["TorchCompute", PacedShapes]

BY_PROFILE = "the scenario's profile"


async def prepare(
    assignment: Assignment, control: Control, thread: ThreadPoolExecutor, emulation: HostChanges, tell: Tell
) -> Mathematics:
    """The rank's mathematics, paced; facts.json says by what. Raises: Aborted; InputError: a profile does not fit."""
    if assignment.scenario.training.mathematics == SHAPES:
        return _shapes(assignment, emulation)
    return await _calibrated(assignment, control, thread, emulation, tell)


def _shapes(assignment: Assignment, emulation: HostChanges) -> PacedShapes:
    """Nothing is measured, so that nobody is waited for."""
    scenario = assignment.scenario
    profile = read_profile(scenario.path / PROFILE, scenario)
    compute = PacedShapes(scenario.training, profile, rank=assignment.rank, pacing=Pacing(emulation.speed))
    facts = ComputeFacts.of(
        compute.buckets, compute.tensor_shapes, speed=emulation.paced_at, agreed_s=compute.times.seconds,
        paced_by=BY_PROFILE,
    )  # fmt: skip
    assignment.records.write_facts(replace(host_facts({}, facts), mathematics=SHAPES))
    return compute


async def _calibrated(
    assignment: Assignment, control: Control, thread: ThreadPoolExecutor, emulation: HostChanges, tell: Tell
) -> TorchCompute:
    """Real mathematics. Hosts of one hardware class and batch size pace by their median profile: what one of them
    measured while others competed for its cores is noise. A profile stored with the scenario goes before what was
    measured."""
    slot = await _slot(assignment, control)
    compute, facts = await asyncio.get_running_loop().run_in_executor(thread, _torch, assignment, emulation, slot)
    calibrated_s = tuple(await calibrate(compute, control, thread, tell))
    facts = replace(facts, compute=replace(facts.compute, calibrated_s=calibrated_s))
    assignment.records.write_facts(facts)  # before the others are here: a run that ends now has them
    batch_size = assignment.scenario.training.batch_sizes[assignment.rank]
    mine = {"class": f"{hardware_class(facts)}, batch {batch_size}", "segments_s": facts.compute.calibrated_s}
    everybody = await control.gather("prepared", mine, PREPARED_WITHIN_S)
    peers = [each["segments_s"] for each in everybody if each["class"] == mine["class"]]  # its own included
    stored = stored_segments_s(assignment.scenario, batch_size, len(compute.buckets))
    agreed = stored or [float(each) for each in np.median(peers, axis=0)]
    compute.pace(agreed)
    paced_by = "calibration" if stored is None else BY_PROFILE
    assignment.records.amend_facts(compute=replace(facts.compute, agreed_s=tuple(agreed), paced_by=paced_by))
    return compute


async def _slot(assignment: Assignment, control: Control) -> int:
    """Number of this rank among those of its machine: hosts of a testbed may be one machine, and share its GPUs."""
    if assignment.scenario.training.device == "cpu":
        return 0
    machines = await control.gather("machines", machine_id())
    return machines[: assignment.rank].count(machines[assignment.rank])


def _torch(assignment: Assignment, emulation: HostChanges, slot: int) -> tuple[TorchCompute, HostFacts]:
    """(compute, facts), in the compute thread."""
    with uncollected():
        from e2c_dl.training.compute import make_deterministic
        from e2c_dl.training.device.choice import compute_on, device_facts

    make_deterministic()  # before the model is built: it holds for what follows
    training = assignment.scenario.training
    pacing = Pacing(emulation.speed)
    compute = compute_on(training, rank=assignment.rank, size=assignment.size, slot=slot, pacing=pacing)
    facts = ComputeFacts.of(compute.buckets, compute.tensor_shapes, speed=assignment.own.speed)
    return compute, replace(host_facts(device_facts(training, slot), facts), mathematics=training.mathematics)
