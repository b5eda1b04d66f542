"""Carry a simulated run through its steps; the archive is written from its first moment, whatever happens later.

::

    check stage | simulate | report
    nothing yet | a failure or Ctrl-C here still passes through report: the archive says what happened, and is sealed
"""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

from e2c_dl.campaign.interrupts import interruptible
from e2c_dl.campaign.request import Console
from e2c_dl.errors import ArchiveError, E2cDlError
from e2c_dl.simulation import steps
from e2c_dl.simulation.request import Request
from e2c_dl.simulation.steps import Simulation


@dataclass(frozen=True, kw_only=True)
class Step:
    """One step. ``always``: done after a failure too, once there is an archive."""

    name: str
    what: str  # for people
    act: Callable[[Simulation], None]
    always: bool = False


STEPS: tuple[Step, ...] = (
    Step(name="check", what="reading the scenario", act=steps.check),
    Step(name="stage", what="opening the archive", act=steps.stage),
    Step(name="simulate", what="training under a virtual clock", act=steps.simulate),
    Step(name="report", what="finding what slowed it down, sealing the archive", act=steps.close, always=True),
)


def run(request: Request, console: Console) -> Path:
    """Carry out ``request``; the archive's path.

    Raises: the E2cDlError of the first step that failed, after the archive says so.
    """
    simulation = Simulation(request=request, console=console)
    with interruptible() as interrupts:
        for step in STEPS:
            if simulation.failure is not None and not (step.always and simulation.archive is not None):
                continue
            if step.always:
                interrupts.hold()
            _carry_out(step, simulation, console)
    if simulation.failure is not None:
        raise simulation.failure
    return simulation.the_archive.path


def _carry_out(step: Step, simulation: Simulation, console: Console) -> None:
    """Do one step; a failure is said, and kept if it is the first."""
    console.step(step.name, step.what)
    begun = time.monotonic()
    error: E2cDlError | None = None
    try:
        step.act(simulation)
    except E2cDlError as failed:
        error = failed
    except OSError as failed:
        error = ArchiveError(f"{step.name}: {failed}; make room, or name another place with --archive")
        error.__cause__ = failed
    seconds = time.monotonic() - begun
    if error is None:
        console.done(step.name, seconds)
    else:
        console.failed(step.name, str(error))
        simulation.failure = simulation.failure or error
    simulation.note(step.name, seconds, error, last=step.always)
