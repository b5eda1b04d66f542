"""Settings that a scenario leaves open and its run tells: how much a filter of values let through.

A measured world has no values: a strategy that sends what is significant must be told how much that is
(:meth:`e2c_dl.strategies.base.Strategy.check_shapes`). What its first ranks of layers sent each other in an iteration,
in the mean, is what they send when it is simulated again::

    selectivity = bytes of the update / bytes of an entry (index, value) / parameters

The largest message of an iteration is the update; beside it, one may announce its indices. Not in it: that a filter
lets less or more through as training goes on.

Where time ends a training, what departs costs work, and no time: what it costs is told at equal work, which its run
tells (:func:`by_work`).
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace

import numpy as np

from e2c_dl import strategies
from e2c_dl.archive.records import HostFacts
from e2c_dl.diagnosis.resimulation.measure import layout_of
from e2c_dl.scenario.budget import Budget, Unit
from e2c_dl.scenario.model import Scenario
from e2c_dl.scenario.training import iterations_of
from e2c_dl.strategies.base import Setting
from e2c_dl.strategies.collectives.averaging import grouped
from e2c_dl.strategies.sparse import INDEX_BYTES, sparse_bytes
from e2c_dl.trace.model import Phase, Trace
from e2c_dl.worlds.allotment import own_pace

SELECTIVITY = "selectivity"


def told(scenario: Scenario, trace: Trace, facts: Mapping[str, HostFacts | None]) -> Mapping[str, Setting]:
    """Settings of the strategy of ``scenario`` that ``trace`` tells and it does not. Raises: AnalysisError."""
    trained = scenario.trained
    if trained is None:
        return {}
    known = {**strategies.describe(trained.strategy).settings, **trained.strategy_settings}
    if known.get(SELECTIVITY) != 0:  # stated, or nothing that it has
        return {}
    layout = layout_of(scenario, facts)
    return {SELECTIVITY: _let_through(trace, sum(layout.buckets), np.dtype(layout.dtype).itemsize)}


def as_recorded(scenario: Scenario, settings: Mapping[str, Setting]) -> Scenario:
    """``scenario``, whose strategy has these ``settings``, too."""
    if not settings or scenario.trained is None:
        return scenario
    both = {**scenario.trained.strategy_settings, **settings}
    return replace(scenario, trained=replace(scenario.trained, strategy_settings=both))


def by_work(scenario: Scenario, trace: Trace) -> Scenario:
    """``scenario``, which ends with as many iterations as ``trace`` has if it ended with time."""
    trained = scenario.trained
    if trained is None or trained.ends.unit is not Unit.SECONDS or not trace.ranks:
        return scenario
    counts = [len(rank.rows(Phase.ITERATION)) for rank in trace.ranks]
    budget = Budget(unit=Unit.ITERATIONS, amount=float(max(1, min(counts))))
    if own_pace(trained):
        budget = Budget(unit=Unit.UPDATES, amount=float(max(len(counts), sum(counts))))
    trained = replace(trained, budget=budget)
    return replace(scenario, trained=replace(trained, iterations=iterations_of(trained)))


def _let_through(trace: Trace, parameters: int, itemsize: int) -> float:
    """The part of all entries, above 0 and at most 1."""
    leaders = [group[0] for group in grouped([rank.layer for rank in trace.ranks])]
    updates: dict[tuple[int, int, int], int] = {}
    for rank in trace.ranks:
        sent = rank.spans[rank.spans["phase"] == Phase.SEND]
        between = sent[np.isin(sent["dst"], leaders)] if rank.rank in leaders else sent[:0]
        for dst, iteration, nbytes in between[["dst", "iteration", "nbytes"]].tolist():
            key = rank.rank, dst, iteration
            updates[key] = max(nbytes, updates.get(key, 0))
    if not updates:
        return 1.0  # of one layer alone nothing is filtered
    entry_bytes = INDEX_BYTES + itemsize
    entries = [max(0, nbytes - sparse_bytes(0, itemsize)) / entry_bytes for nbytes in updates.values()]
    return float(f"{min(1.0, max(float(np.mean(entries)), 1.0) / parameters):.4g}")  # people read it, too
