"""The end of a run on Grid'5000 of which only the registry is left: its jobs are deleted, then what is here is removed.

Nodes are not tidied up: Grid'5000 installs them anew. So nothing of them is kept, either.
"""

from __future__ import annotations

from collections.abc import Collection
from pathlib import Path
from typing import Any

from e2c_dl.testbeds import registry
from e2c_dl.testbeds.grid5000.account import load
from e2c_dl.testbeds.grid5000.api import Api
from e2c_dl.testbeds.machines.cleanup import destroy_elsewhere

JOBS = "jobs"
"""Of the registry's details: the name of the run's jobs, and at which sites; absent until they are asked for."""


def destroy(run_id: str, base: Path | None = None, *, keep: Collection[str] = ()) -> tuple[str, ...]:
    """End run ``run_id``, alive or dead: no job of it stays, whatever was still on its nodes; one line each.

    Raises: TestbedError: Grid'5000 cannot be asked, or a job stays; the registry keeps the run, to try again.
    """

    def end(run: registry.RegisteredRun) -> list[str]:
        asked = run.details.get(JOBS)
        removed = _jobs_deleted(asked) if asked else []
        lost = [f"what {', '.join(sorted(keep))} had not handed over, with its node"] if keep and removed else []
        return [*removed, *lost]

    return destroy_elsewhere(run_id, base, end, unknown=f"its jobs on Grid'5000, named *-{run_id}")


def _jobs_deleted(asked: dict[str, Any]) -> list[str]:
    """Every job of that name is over then; one line each. Raises: InputError, TestbedError."""
    api, removed = Api(load()), []
    for site in asked["sites"]:
        for uid in api.jobs(site, asked["name"]):
            api.delete(site, uid)
            removed.append(f"job {uid} of {site}")
    return removed
