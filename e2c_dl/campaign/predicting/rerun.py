"""Re-runs of a run with something changed, to hold a prediction against: simulated, or on a testbed.

A simulated one trains nothing: times are what is asked for, and they are the same. What is changed stands in the
re-run's ``emulation.yaml``, section ``what_if:``, so that its archive can be run again as well.
"""

from __future__ import annotations

import os
import tempfile
from collections.abc import Collection, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path

from e2c_dl.archive.read import ReadArchive, open_archive
from e2c_dl.campaign import run as deployed
from e2c_dl.campaign import simulated
from e2c_dl.campaign.predicting.measured import MeasuredRun
from e2c_dl.campaign.request import Console, Request
from e2c_dl.diagnosis.diagnose import read_report
from e2c_dl.drivers.live.stored import read_profile
from e2c_dl.errors import InputError
from e2c_dl.scenario.folder import copies
from e2c_dl.scenario.load import load
from e2c_dl.scenario.what_if import Changed
from e2c_dl.scenario.workflow import PROFILE
from e2c_dl.strategies.base import Setting


@dataclass(frozen=True, kw_only=True)
class RerunRequest:
    """How to run again."""

    testbed: str | None = None  # None: simulated
    options: Mapping[str, str] = field(default_factory=dict)  # what was said about the testbed
    artifacts: Path | None = None  # None: an empty folder
    profile: Path | None = None  # of a simulated one; None: the one that the archive's scenario has
    archive: Path | None = None  # where it is kept; None: runs/SCENARIO-TIME-RUN
    command: tuple[str, ...] = ()


def check(archive: ReadArchive, without: Collection[str], request: RerunRequest) -> None:
    """Does nothing. Raises: InputError for a re-run that cannot be, before anything is measured or predicted."""
    if request.archive is not None and os.path.lexists(request.archive) and not _is_empty(request.archive):
        raise InputError(f"{request.archive}: is not empty; name a new directory with --archive")
    if request.testbed is None and (request.options or request.artifacts is not None):
        raise InputError("--artifacts and options of hosts are of a testbed; name it with --on, or leave them out")
    if request.testbed is not None and request.profile is not None:
        raise InputError("--profile is of a simulated re-run; leave it out, or --on")
    if request.profile is not None:
        read_profile(request.profile, load(archive.scenario))
    if request.testbed is not None and without:
        raise InputError("--without: hosts that do not train are for simulated re-runs alone; remove --on")
    if request.testbed is None and request.profile is None and not (archive.scenario / PROFILE).is_file():
        missing = f"{archive.path}: its scenario has no {PROFILE}, which a simulated re-run goes by"
        raise InputError(f"{missing}; name a testbed with --on, or one that `e2c-dl calibrate` wrote with --profile")


def rerun(run: MeasuredRun, changed: Changed, request: RerunRequest, console: Console) -> tuple[Path, float]:
    """(its archive, its run time in s) of the scenario of ``run`` with ``changed``. Raises: E2cDlError, of its steps.

    A simulated one has no values: its strategy is told what ``run`` told of them.
    """
    with _scenario(run.archive, changed, run.recorded if request.testbed is None else {}) as scenario:
        if request.testbed is None:
            asked = simulated.SimulationRequest(
                scenario=scenario,
                archive=request.archive,
                profile=request.profile,
                shapes_only=True,
                command=request.command,
            )
            path = simulated.run(asked, console)
        else:
            path = deployed.run(
                Request(
                    scenario=scenario, artifacts=request.artifacts, testbed=request.testbed,
                    options=request.options, archive=request.archive, command=request.command,
                ),
                console,
            )  # fmt: skip
    return path, read_report(open_archive(path)).run_s


def _is_empty(path: Path) -> bool:
    return path.is_dir() and next(path.iterdir(), None) is None


def _name(archive: ReadArchive) -> str:
    """What its scenario is called, as that of a folder: an archive may say anything, such as a path."""
    name = Path(archive.run.scenario).name
    return "what-if" if name in ("", "..") or "\0" in name else name


@contextmanager
def _scenario(archive: ReadArchive, changed: Changed, settings: Mapping[str, Setting]) -> Iterator[Path]:
    """The changed scenario's folder, whose strategy has these ``settings``, too, for as long as the re-run needs it."""
    loaded = load(archive.scenario)
    before = loaded.what_if  # of a re-run: what is asked comes on top
    env = {"strategy_settings": {**loaded.training.strategy_settings, **settings}} if settings else {}
    with tempfile.TemporaryDirectory(prefix="e2c-dl-") as made:
        scenario = Path(made) / _name(archive)
        copies.changed(archive.scenario, scenario, before.then(changed), env)
        yield scenario
