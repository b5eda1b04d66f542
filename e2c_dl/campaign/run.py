"""Carry a run through its steps: from a request to a sealed archive."""

from __future__ import annotations

from pathlib import Path

from e2c_dl.campaign.request import Console, Request
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
        raise failure if campaign.cause is None or isinstance(failure, Interrupted) else campaign.cause
    return campaign.archive_path
