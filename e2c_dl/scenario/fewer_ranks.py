"""A scenario in which some of its hosts do not train: they stay where they are, and the ranks behind them move up."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import replace

from e2c_dl import formatting, strategies
from e2c_dl.errors import InputError
from e2c_dl.scenario.model import Scenario, Training
from e2c_dl.scenario.services import TRAINER
from e2c_dl.scenario.training import iterations_of
from e2c_dl.strategies.base import Setting
from e2c_dl.topology import Host

LEAST = 2  # hosts that train


def as_written(scenario: Scenario, strategy: str, settings: Mapping[str, Setting]) -> dict[str, Setting]:
    """``settings`` of ``strategy``, for the ranks of ``scenario``, as its files have them: ranks that settings name
    count the hosts that do not train, too.
    """
    written = dict(settings)
    if scenario.what_if.without:
        trainers = [host for host in scenario.topology.hosts if host.service == TRAINER]
        trainers.sort(key=lambda host: [int(number) for number in host.service_id.split("_")])
        names = [host.name for host in trainers]
        known = {**strategies.describe(strategy).settings, **settings}
        for name in strategies.load(strategy)(**settings).rank_settings:
            rank = known[name]
            if isinstance(rank, int) and rank < len(scenario.topology.ranks):
                written[name] = names.index(scenario.topology.ranks[rank].name)
    return written


def training_without(scenario: Scenario, names: Collection[str]) -> Scenario:
    """``scenario``, in which the hosts ``names`` do not train; the others keep their batches.

    Raises: InputError, if fewer than two would train, or one of them serves.
    """
    kept = [host for host in scenario.topology.ranks if host.name not in names]
    if len(kept) < LEAST:
        left = formatting.count(len(kept), "host")
        raise InputError(f"without {', '.join(names)}: {left} would train; leave at least two")
    ranked = [replace(host, rank=rank) for rank, host in enumerate(kept)]
    others = [replace(host, rank=None) for host in scenario.topology.hosts if host not in kept]
    training = replace(
        scenario.training,
        batch_sizes=tuple(scenario.training.batch_sizes[host.rank or 0] for host in kept),
        strategy_settings=_settings(scenario.training, scenario.topology.ranks, kept),
    )
    return replace(
        scenario,
        topology=replace(scenario.topology, hosts=(*ranked, *others)),
        trained=replace(training, iterations=iterations_of(training)),
    )


def _settings(training: Training, ranks: Sequence[Host], kept: Sequence[Host]) -> Mapping[str, Setting]:
    """The strategy's settings, some of which name a rank. Raises: InputError, if that one is not ``kept``."""
    settings = dict(training.strategy_settings)
    known = {**strategies.describe(training.strategy).settings, **settings}
    for name in strategies.load(training.strategy)(**settings).rank_settings:
        rank = known[name]
        if not isinstance(rank, int) or rank >= len(ranks):  # which its run refuses
            continue
        if ranks[rank] not in kept:
            raise InputError(
                f"without {ranks[rank].name}: it is the {name} ({name}: {rank}); name another {name} first"
            )
        settings[name] = kept.index(ranks[rank])
    return settings
