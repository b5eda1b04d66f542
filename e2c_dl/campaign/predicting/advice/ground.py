"""Ground that candidates are tried on: a scenario, and the times that its hosts and links took, or will by its profile.

A value that can be sent to another process, or to another machine with this program: the scenario goes along as its
files, and is unpacked and loaded there.
"""

from __future__ import annotations

import tempfile
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path

from e2c_dl.archive.read import ReadArchive
from e2c_dl.campaign.predicting.measured import MeasuredRun
from e2c_dl.diagnosis.resimulation.world import MeasuredWorld
from e2c_dl.drivers.live.stored import read_profile
from e2c_dl.drivers.virtual import inputs
from e2c_dl.errors import AnalysisError, InputError
from e2c_dl.scenario.folder import copies
from e2c_dl.scenario.load import load
from e2c_dl.scenario.model import Scenario
from e2c_dl.scenario.workflow import PROFILE
from e2c_dl.strategies.base import Setting, any_pair


@dataclass(frozen=True, kw_only=True)
class Ground:
    """What every trial needs. ``measured`` None: hosts go by the scenario's profile, links as they are emulated."""

    name: str
    files: Mapping[str, bytes]  # of the scenario's folder, by their path in it
    total_samples: int  # that every candidate trains on, all ranks together
    real: bool  # gradients are computed, so that there are losses
    measured: MeasuredWorld | None = None
    recorded: Mapping[str, Setting] = field(default_factory=dict)  # of its strategy, that its run tells

    @contextmanager
    def unpacked(self) -> Iterator[tuple[Scenario, Path]]:
        """The scenario, and a folder for what trials write."""
        with tempfile.TemporaryDirectory(prefix="e2c-dl-") as made:
            folder, scratch = Path(made) / "scenario", Path(made) / "scratch"
            for name, content in self.files.items():
                (folder / name).parent.mkdir(parents=True, exist_ok=True)
                (folder / name).write_bytes(content)
            scratch.mkdir()
            yield load(folder, name=self.name), scratch


def of_archive(archive: ReadArchive, *, real: bool) -> Ground:
    """The ground of a run that was made. Raises: AnalysisError, if its trace is not whole; ArchiveError."""
    run = MeasuredRun.of(archive)
    if run.incomplete:
        raise AnalysisError(f"{run.incomplete}; advice needs a whole run: name its scenario instead of the archive")
    world = run.observed.world(run.retraining)
    unused, _ = run.designed_links(any_pair(len(world.hosts)))
    return Ground(
        name=archive.run.scenario, files=_files(archive.scenario), real=real,
        total_samples=sum(samples for host in world.hosts for samples, _ in host.gradients),
        measured=world.with_unused(unused, run.retraining.bottlenecks), recorded=run.recorded,
    )  # fmt: skip


def of_scenario(folder: Path, *, real: bool) -> Ground:
    """The ground of a run that may be made. Raises: InputError, without a compute profile."""
    scenario = load(folder)
    inputs.check(scenario, read_profile(folder / PROFILE, scenario))
    return Ground(name=scenario.name, files=_files(folder), total_samples=_total(scenario), real=real)


def _total(scenario: Scenario) -> int:
    """Samples that the scenario trains on, all ranks together. Raises: InputError, if time decides."""
    training = scenario.training
    iterations = training.ends.in_step(training.batch_sizes)
    if iterations is None:
        problem = f"{scenario.name}: {training.ends.described()} end its training, and advice compares equal samples"
        raise InputError(f"{problem}; write iterations, updates or samples, or name an archive of a run")
    return iterations * sum(training.batch_sizes)


def _files(folder: Path) -> dict[str, bytes]:
    """What belongs to the scenario in ``folder``, by path in it. Raises: ScenarioError for a link out of it."""
    return {str(file.relative_to(folder)): file.read_bytes() for file in copies.parts(folder)}
