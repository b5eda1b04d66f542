"""A look at the run's jobs from time to time, by a thread of its own: nodes of a job that is over are gone.

Grid'5000 takes them back at the walltime, in the middle of whatever they do, traces and all. So a run is told to end
while there is time to fetch these. An API that does not answer says nothing about the nodes: it is asked again.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from e2c_dl.errors import InputError, TestbedError
from e2c_dl.testbeds.grid5000.api import RUNNING, Api

LOOK_EVERY_S = 10.0
FETCHING_S, FETCHING = 300.0, 0.1
"""What is left of a walltime for collecting: so many seconds, or that part of it if it is less."""


@dataclass(frozen=True, kw_only=True)
class Ended:
    """A job that is over, and when that was seen."""

    at_s: float  # Unix time
    reason: str


class JobWatch:
    """Looks at jobs, (site, id) each, from ``start`` until ``stop``. ``ended`` is for any thread."""

    def __init__(self, api: Api, jobs: Sequence[tuple[str, int]], walltime: str) -> None:
        self._api, self._jobs, self._walltime = api, tuple(jobs), walltime
        self._stop = threading.Event()
        self._thread = threading.Thread(target=self._look_on, name="jobs", daemon=True)
        self._ended: dict[str, Ended] = {}
        self._closing: str | None = None

    @property
    def ended(self) -> Mapping[str, Ended]:
        """Site -> how its job ended, as far as that was seen."""
        return dict(self._ended)

    @property
    def closing(self) -> str | None:
        """Why training has to end now, in a sentence; None while there is time."""
        return self._closing

    def start(self) -> None:
        self._thread.start()

    def stop(self) -> None:
        """A look that is under way ends by itself."""
        self._stop.set()

    def look(self) -> None:
        """Look once."""
        for site, uid in self._jobs:
            try:
                job = self._api.job(site, uid)
            except (InputError, TestbedError):
                continue  # of the job, that says nothing
            state = job["state"]
            if state == RUNNING and self._closing is None:
                self._closing = _closing(site, uid, job.get("started_at"), job.get("walltime"))
            if state != RUNNING and site not in self._ended and not self._stop.is_set():
                reason = (
                    f"its job {uid} at {site} is over ({state}): the walltime of {self._walltime} was, or somebody "
                    "deleted it"
                )
                self._ended[site] = Ended(at_s=time.time(), reason=reason)

    def _look_on(self) -> None:
        while not self._stop.wait(LOOK_EVERY_S):
            self.look()


def _closing(site: str, uid: int, begun_s: object, walltime_s: object) -> str | None:
    if not isinstance(begun_s, (int, float)) or not isinstance(walltime_s, (int, float)):
        return None  # the job's end is not told
    left_s = begun_s + walltime_s - time.time()
    if left_s > min(FETCHING_S, FETCHING * walltime_s):
        return None
    return (
        f"job {uid} of {site} ends in {max(0.0, left_s):.0f} s, at its walltime: training was stopped while what it "
        "traced can still be fetched; ask for a longer walltime, or for fewer iterations"
    )
