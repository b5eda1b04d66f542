"""What a run would do, in words and commands, without doing it."""

from __future__ import annotations

from e2c_dl.campaign.checks import checked
from e2c_dl.campaign.request import Request
from e2c_dl.campaign.steps import STEPS


def plan(request: Request) -> str:
    """The whole plan as text. Raises: InputError, FidelityError as a run would."""
    scenario, testbed = checked(request)
    lines = [f"scenario {scenario.name} on {testbed.name}"]
    for heading, said in testbed.plan(scenario).items():
        lines += ["", heading, *(f"  {line}" for line in said)]
    limits = testbed.limitations(scenario)
    if limits:
        lines += ["", "not emulated as asked", *(f"  {sentence}" for sentence in limits)]
    if scenario.remarks:
        lines += ["", "remarks", *(f"  {remark}" for remark in scenario.remarks)]
    lines += ["", "steps", *(f"  {step.name:<9} {step.what}" for step in STEPS)]
    return "\n".join(lines)
