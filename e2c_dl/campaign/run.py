"""Carry out a request: a run, from its first step to a sealed archive, or the plan of one."""

from __future__ import annotations

from pathlib import Path

from e2c_dl.campaign.request import Console, Request, checked
from e2c_dl.campaign.steps import STEPS, Campaign
from e2c_dl.campaign.walk import walk
from e2c_dl.errors import Interrupted


def run(request: Request, console: Console) -> Path:
    """Carry out ``request``; the archive's path.

    Raises: the E2cDlError of the first step that failed, or the cause that the workers' records show, unless the user
    stopped the run; after all that had to be done was done.
    """
    campaign = Campaign(request=request, console=console)
    with campaign.scope:  # closed by then, unless a step failed before there was anything to release
        failure = walk(STEPS, campaign)
    if failure is not None:
        # a stop by the user is no failure of a worker that it stopped
        raise failure if campaign.cause is None or isinstance(failure, Interrupted) else campaign.cause
    return campaign.archive_path


def plan(request: Request) -> str:
    """The whole plan as text. Raises: InputError, FidelityError as a run would."""
    scenario, testbed = checked(request)
    lines = [f"scenario {scenario.name} on {testbed.name}"]
    for heading, said in testbed.plan(scenario).items():
        lines += ["", heading, *(f"  {line}" for line in said)]
    limits = testbed.limitations(scenario)
    if limits:
        lines += ["", "not emulated as requested", *(f"  {sentence}" for sentence in limits)]
    if scenario.remarks:
        lines += ["", "remarks", *(f"  {remark}" for remark in scenario.remarks)]
    lines += ["", "steps", *(f"  {step.name:<9} {step.what}" for step in STEPS)]
    return "\n".join(lines)
