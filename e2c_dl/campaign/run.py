"""Carry a run through its steps, whatever happens on the way: collect what there is, release the hosts, say what was.

::

    check stage | deploy emulate prepare train | collect release analyse report seal
    nothing yet | a failure here ...           | ... still passes through all of these
    is started  |                              |

The first failure decides the exit code; later ones are recorded beside it.
"""

from __future__ import annotations

import errno
import time
import traceback
from pathlib import Path

from e2c_dl.campaign.interrupts import Interrupts, interruptible
from e2c_dl.campaign.request import Console, Request
from e2c_dl.campaign.steps import STEPS, Campaign, Step
from e2c_dl.errors import ArchiveError, E2cDlError, Interrupted


def run(request: Request, console: Console) -> Path:
    """Carry out ``request``; the archive's path.

    Raises: the E2cDlError of the first step that failed, after all that had to be done was done.
    """
    campaign = Campaign(request=request, console=console)
    failure: E2cDlError | None = None
    with interruptible() as interrupts:
        for step in STEPS:
            if failure is not None and not (step.always and campaign.started):
                continue
            if step.always:
                interrupts.hold()
            error = _carried_out(step, campaign, console, interrupts)
            failure = failure or error
    if failure is not None:
        raise _best(failure, campaign.cause)
    return campaign.archive_path


def _carried_out(step: Step, campaign: Campaign, console: Console, interrupts: Interrupts) -> E2cDlError | None:
    """Do one step; its failure, if any, as one of ours, recorded in the archive."""
    console.step(step.name, step.what)
    begun = time.monotonic()
    error: E2cDlError | None = None
    try:
        step.act(campaign)
    except E2cDlError as failed:
        error = failed
    except OSError as failed:
        error = _full_disk(failed, campaign) or ArchiveError(f"{step.name}: {failed}")
        error.__cause__ = failed
    except Exception as failed:  # noqa: BLE001 - a defect: the hosts are released all the same, and the traceback is kept
        error = E2cDlError(f"{step.name}: unexpected {type(failed).__name__}: {failed}; please report logs/defect.txt")
        error.__cause__ = failed
        campaign.keep_traceback(traceback.format_exc())
    seconds = time.monotonic() - begun
    if interrupts.received is not None and not step.always:
        error = interrupts.received  # whatever else it looked like to E2Clab
    if error is None:
        console.done(step.name, seconds)
    else:
        console.failed(step.name, str(error))
    campaign.note(step, seconds, error)
    return error


def _best(failure: E2cDlError, cause: E2cDlError | None) -> E2cDlError:
    """What to tell the user: the cause that the workers' records show, unless the user stopped the run."""
    return failure if cause is None or isinstance(failure, Interrupted) else cause


def _full_disk(error: OSError, campaign: Campaign) -> ArchiveError | None:
    if error.errno not in (errno.ENOSPC, errno.EDQUOT):
        return None
    where = error.filename or campaign.archive_path
    return ArchiveError(f"the disk is full ({where}); make room and run again, or say --archive with another disk")
