"""Carry out a request: a run, from its first step to a sealed archive, or the plan of one."""

from __future__ import annotations

from pathlib import Path

from e2c_dl.campaign.campaign import Campaign
from e2c_dl.campaign.request import Console, Request, checked
from e2c_dl.campaign.steps import PROBE_STEPS, STEPS
from e2c_dl.campaign.walk import walk


def run(request: Request, console: Console, transcript: Console | None = None) -> Path:
    """Carry out ``request``, telling both consoles; the archive's path.

    Raises: the E2cDlError of the first step that failed, or the cause that the workers' records show, unless the user
    stopped the run; after all that had to be done was done.
    """
    campaign = Campaign(request=request, console=console, transcript=transcript, analysed=not request.only_probe)
    with campaign.scope:  # closed by then, unless a step failed before there was anything to release
        walk(PROBE_STEPS if request.only_probe else STEPS, campaign)
    _tell_what_is_left(campaign)
    if campaign.verdict is not None:
        raise campaign.verdict
    return campaign.archive_path


def _tell_what_is_left(campaign: Campaign) -> None:
    """Of a run whose release was given up, or failed; what is left on purpose was told."""
    testbed, on_purpose = campaign.testbed, campaign.kept or (campaign.request.keep and not campaign.failures)
    if testbed is None or on_purpose or not testbed.state_dir.exists():
        return
    campaign.console.say(f"not all of it was removed: `e2c-dl destroy {testbed.run_id}` removes the rest")


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
