"""Carry a simulated run through its steps; the archive is written from its first moment, whatever happens later."""

from __future__ import annotations

from pathlib import Path

from e2c_dl.campaign.request import Console
from e2c_dl.campaign.simulated import STEPS, Simulation
from e2c_dl.campaign.simulated_request import Request
from e2c_dl.campaign.walk import walk


def run(request: Request, console: Console) -> Path:
    """Carry out ``request``; the archive's path.

    Raises: the E2cDlError of the first step that failed, after the archive says so.
    """
    simulation = Simulation(request=request, console=console)
    failure = walk(STEPS, simulation)
    if failure is not None:
        raise failure
    return simulation.archive_path
