"""A run as its archive shows it, for all predictions: its scenario, what was observed, and how to simulate it again."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from e2c_dl.archive.read import ReadArchive
from e2c_dl.campaign.predicting.asked import asked
from e2c_dl.diagnosis.detection.clocks import arriving
from e2c_dl.diagnosis.diagnose import ReadRun, read_run
from e2c_dl.diagnosis.observed import Observed, observe
from e2c_dl.diagnosis.resimulation.hosts import SecondsOf
from e2c_dl.diagnosis.resimulation.links import MeasuredLink, designed_link
from e2c_dl.diagnosis.resimulation.measure import Retraining
from e2c_dl.diagnosis.resimulation.recorded import as_recorded, told
from e2c_dl.drivers.live.stored import read_profile
from e2c_dl.emulation.compute import Method as Slowed
from e2c_dl.errors import AnalysisError
from e2c_dl.scenario.model import Scenario
from e2c_dl.scenario.what_if import Changed
from e2c_dl.scenario.workflow import PROFILE
from e2c_dl.strategies.base import Setting
from e2c_dl.worlds.virtual.links import RankPair
from e2c_dl.worlds.virtual.profile import ComputeProfile


@dataclass(frozen=True, kw_only=True)
class MeasuredRun:
    """A run as its archive shows it, for predictions."""

    archive: ReadArchive
    scenario: Scenario
    observed: Observed
    retraining: Retraining
    recorded: Mapping[str, Setting]  # of the strategy, that the scenario leaves open

    @classmethod
    def of(cls, archive: ReadArchive, known: ReadRun | None = None) -> MeasuredRun:
        """Of ``archive``, if it is not ``known`` already.

        Raises: ArchiveError, AnalysisError, ScenarioError, if there is no run that could be analysed, or its clocks are
        too wrong for it.
        """
        trace, scenario, reference = known or read_run(archive)
        if scenario is None:
            raise AnalysisError(
                f"{archive.path}: a script of its own trained there, whose strategy nobody can simulate again; "
                "e2c-dl whatif replays it"
            )
        recorded = told(scenario, trace, archive.host_facts)
        scenario = as_recorded(scenario, recorded)
        retraining = Retraining.of(scenario, archive.host_facts, _seconds_of(scenario))
        observed = observe(trace, reference)
        if observed.mistimed_s:
            unknown = "what it took, and what anything would save, is not known"
            raise AnalysisError(
                f"{archive.path}: {arriving(observed.mistimed_s)}: {unknown}; e2c-dl report says whose clocks"
            )
        return cls(
            archive=archive, scenario=scenario, observed=observed, retraining=retraining, recorded=recorded
        )  # fmt: skip

    @property
    def incomplete(self) -> str | None:
        """Why it cannot be simulated again, in words; None if it can."""
        problem = self.retraining.problem(self.observed.whole)
        return None if problem is None else f"{self.archive.path}: its {problem}"

    @property
    def quota(self) -> bool:
        """Whether processors were slowed by a CPU quota, which slows all that is computed."""
        compute = self.archive.run.emulation.get("compute", {})
        return isinstance(compute, Mapping) and compute.get("method") == Slowed.QUOTA.value

    def asked(self, sets: Sequence[str], without: Sequence[str]) -> Changed:
        """What ``--set`` and ``--without`` ask of it. Raises: InputError."""
        return asked(sets, without, self.scenario.topology.ranks, self.observed.measured_links.keys())

    def designed_links(self, used: Sequence[RankPair]) -> tuple[dict[RankPair, MeasuredLink], list[str]]:
        """Those of the links ``used`` that carried nothing in this run, as designed; their names."""
        ranks, added, names = self.scenario.topology.ranks, {}, []
        for src, dst in used:
            pair = ranks[src].name, ranks[dst].name
            if pair not in self.observed.measured_links:
                added[src, dst] = designed_link(self.observed.design.foreseen.alone(pair), self.retraining.tcp)
                names.append(f"{pair[0]} -> {pair[1]}")
        return added, names


@dataclass(frozen=True, kw_only=True)
class _ByProfile:
    """Seconds of a gradient by its samples, as ``profile`` has it: a value, so that worlds can be sent to processes."""

    profile: ComputeProfile

    def __call__(self, samples: int) -> float:
        times = self.profile.gradient(samples)
        return times.data_s + times.forward_s + sum(times.backward_s)


def _seconds_of(scenario: Scenario) -> SecondsOf:
    """By the scenario's profile, if it has one that knows several batch sizes; else in proportion to the samples."""
    file = scenario.path / PROFILE
    if not file.is_file():
        return float
    profile = read_profile(file, scenario)
    return _ByProfile(profile=profile) if len(profile.gradients) > 1 else float
