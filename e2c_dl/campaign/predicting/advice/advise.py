"""Advice from beginning to end: ground, candidates, their trials, and the ranking; and the winner as a scenario."""

from __future__ import annotations

from collections.abc import Callable, Generator, Sequence
from contextlib import closing
from dataclasses import dataclass, replace
from pathlib import Path

from e2c_dl.archive import layout
from e2c_dl.archive.read import open_archive
from e2c_dl.archive.records import Doing
from e2c_dl.campaign.predicting.advice import ground as grounds
from e2c_dl.campaign.predicting.advice.candidates import Candidate, candidates
from e2c_dl.campaign.predicting.advice.ground import Ground
from e2c_dl.campaign.predicting.advice.learning import need_torch
from e2c_dl.campaign.predicting.advice.ranking import LEARNED, Objective, Ranking, ranking
from e2c_dl.campaign.predicting.advice.trial import Tried, trained_by, tried
from e2c_dl.campaign.predicting.advice.workers import in_processes, most_workers, on_cluster
from e2c_dl.diagnosis.resimulation.recorded import as_recorded
from e2c_dl.errors import InputError
from e2c_dl.scenario.budget import Unit
from e2c_dl.scenario.fewer_ranks import as_written
from e2c_dl.scenario.folder import copies
from e2c_dl.scenario.load import LAYERS_SERVICES, load
from e2c_dl.scenario.model import Training
from e2c_dl.strategies import load as load_strategy
from e2c_dl.strategies.batching import own_pace


@dataclass(frozen=True, kw_only=True)
class AdviceRequest:
    """What is asked. ``where``: an archive, or a scenario's folder."""

    where: Path
    objective: Objective
    seeds: int
    more: Sequence[str] = ()  # candidates beyond the grid, as --try has them
    workers: int | None = None  # None: one per processor
    scheduler: str | None = None  # of a Dask cluster, instead
    computing: bool | None = None  # gradients; None: as the objective needs it

    @property
    def real(self) -> bool:
        """Whether gradients are computed."""
        return self.objective in LEARNED if self.computing is None else self.computing


def advise(request: AdviceRequest, tell: Callable[[Doing], None]) -> tuple[Ranking, Ground]:
    """The ranking, and the ground on which it holds. ``tell`` hears how many trials are done.

    Raises: InputError, one line; ArchiveError, AnalysisError, if the archive's run cannot be simulated again.
    """
    if request.objective is Objective.ACCURACY and not request.real:
        raise InputError("--objective accuracy is told by real gradients; leave out --shapes-only")
    if request.real:
        need_torch()  # said before anything is read
    tell(Doing(what="reading the run" if _is_archive(request.where) else "reading the scenario"))
    ground = _ground(request)
    with ground.unpacked() as (scenario, _):
        if request.objective is Objective.COST and scenario.prices is None:
            remedy = "add prices: to its emulation.yaml, as docs/emulation.md shows"
            raise InputError(f"{scenario.name}: its scenario has no prices; {remedy}")
        layers = [host.layer for host in scenario.topology.ranks]
        training = as_recorded(scenario, ground.recorded).training
        chosen = candidates(training, layers, request.more, ground.total_samples)
    trials = [(candidate, seed) for seed in range(request.seeds) for candidate in chosen]
    done: list[Tried] = []
    with closing(_begun(request, ground, trials)) as ending:  # what is under way ends with whatever ends this
        for each in ending:
            done.append(each)
            tell(Doing(what="trying strategies", done=len(done), of=len(trials)))
    found = ranking(request.objective, chosen[0], done)
    return replace(found, currency=None if scenario.prices is None else scenario.prices.currency), ground


def write_winner(request: AdviceRequest, ground: Ground, winner: Candidate, folder: Path) -> None:
    """Write the scenario with ``winner`` in it to ``folder``. Raises: InputError, if that is in use."""
    scenario = _scenario(request.where)
    loaded = load(scenario)
    settings = as_written(loaded, winner.strategy, dict(winner.settings))
    env: dict[str, object] = {
        "strategy": winner.strategy, "strategy_settings": settings, "batching": winner.batching,
    }  # fmt: skip
    budgets: tuple[str, ...] = ()
    if not _same_end(loaded.training, winner, ground.total_samples):
        env[Unit.SAMPLES.value] = ground.total_samples
        budgets = tuple(unit.value for unit in Unit if unit is not Unit.SAMPLES)
    copies.retrained(scenario, folder, env, without=budgets)


def _same_end(training: Training, winner: Candidate, total_samples: int) -> bool:
    """Whether what ends ``training`` ends that by ``winner`` behind the samples that it was ranked by."""
    if own_pace(load_strategy(winner.strategy)(**dict(winner.settings)), winner.batching):
        return False  # each rank would have as many iterations as the slowest
    sizes = training.batch_sizes
    return training.ends.in_step(sizes) == trained_by(training, winner, total_samples).ends.in_step(sizes)


def _ground(request: AdviceRequest) -> Ground:
    if _is_archive(request.where):
        return grounds.of_archive(open_archive(request.where), real=request.real)
    return grounds.of_scenario(request.where, real=request.real)


def _begun(
    request: AdviceRequest, ground: Ground, trials: Sequence[tuple[Candidate, int]]
) -> Generator[Tried, None, None]:
    if request.scheduler is not None:
        return on_cluster(tried, ground, trials, request.scheduler)
    return in_processes(tried, ground, trials, min(request.workers or most_workers(), len(trials)))


def _is_archive(where: Path) -> bool:
    """Raises: InputError, if it is no scenario either."""
    if (where / layout.RUN).is_file():
        return True
    if where.is_dir() and not (where / LAYERS_SERVICES).exists():
        problem = f"{where}: is no archive (it has no {layout.RUN}), and no scenario (no {LAYERS_SERVICES})"
        raise InputError(f"{problem}; name the directory that a run printed, or a scenario's folder")
    return False


def _scenario(where: Path) -> Path:
    return open_archive(where).scenario if _is_archive(where) else where
