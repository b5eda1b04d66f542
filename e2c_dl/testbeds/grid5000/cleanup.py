"""The end of a run on Grid'5000 of which only the registry is left: its jobs are deleted, then what is here is removed.

Nodes are not tidied up: Grid'5000 installs them anew. So nothing of them is kept, either.
"""

from __future__ import annotations

from collections.abc import Collection
from pathlib import Path
from typing import Any

from e2c_dl.errors import InputError, TestbedError
from e2c_dl.testbeds import registry
from e2c_dl.testbeds.grid5000.account import load
from e2c_dl.testbeds.grid5000.api import Api
from e2c_dl.testbeds.namespaces import cleanup as here
from e2c_dl.testbeds.this_machine import processes

JOBS = "jobs"
"""Of the registry's details: the name of the run's jobs, and at which sites; absent until they are asked for."""
_KILL_WITHIN_S = 20.0


def destroy(run_id: str, base: Path | None = None, *, keep: Collection[str] = ()) -> tuple[str, ...]:
    """End run ``run_id``, alive or dead: no job of it stays, whatever was still on its nodes; one line each.

    Raises: TestbedError: Grid'5000 cannot be asked, or a job stays; the registry keeps the run, to try again.
    """
    place = registry.run_directory(run_id, base)
    try:
        asked = registry.load(run_id, base).details.get(JOBS)
    except TestbedError as error:  # damaged: at which sites it had jobs is not known
        return (*here.destroy(run_id, base), f"not known: its jobs on Grid'5000, named *-{run_id}: {error}")
    except InputError:
        return here.destroy(run_id, base)
    processes.kill(lambda: processes.all_of(run_id, place), _KILL_WITHIN_S)  # first who might ask for another job
    try:
        removed = delete_jobs(asked) if asked else []
    except (TestbedError, InputError) as error:
        raise TestbedError(
            f"not everything could be removed: {error}; `e2c-dl destroy {run_id}` tries again"
        ) from error
    lost = [f"what {', '.join(sorted(keep))} had not handed over, with its node"] if keep and removed else []
    return (*removed, *lost, *here.destroy(run_id, base))


def delete_jobs(asked: dict[str, Any]) -> list[str]:
    """Every job of that name is over then; one line each. Raises: InputError, TestbedError."""
    api, removed = Api(load()), []
    for site in asked["sites"]:
        for uid in api.jobs(site, asked["name"]):
            api.delete(site, uid)
            removed.append(f"job {uid} of {site}")
    return removed
