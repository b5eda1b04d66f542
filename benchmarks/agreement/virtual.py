"""The virtual side: the same scenario folder, shapes alone, spans in memory."""

from __future__ import annotations

from e2c_dl import strategies
from e2c_dl.drivers.live.stored import PROFILE, read_profile
from e2c_dl.drivers.virtual import inputs
from e2c_dl.scenario.model import Scenario
from e2c_dl.trace.model import ClockAlignment, RankTrace, Trace
from e2c_dl.worlds.virtual import InMemory, bottlenecks, link_models, simulate


def train(scenario: Scenario, seed: int) -> Trace:
    """The trace of ``scenario`` in the virtual world, by the profile stored in its folder. Raises: InputError."""
    training = scenario.training
    models = inputs.host_models(scenario, read_profile(scenario.path / PROFILE, scenario))
    strategy = strategies.load(training.strategy)
    sink = InMemory()
    simulate(
        lambda: strategy(**training.strategy_settings), hosts=models,
        links=link_models(scenario.emulated_topology(), scenario.tcp), bottlenecks=bottlenecks(scenario.topology),
        sink=sink, iterations=training.iterations, seed=seed, evaluate_every=training.evaluate_every,
    )  # fmt: skip
    ranks = tuple(
        RankTrace(rank=rank, host=host.name, layer=host.layer, spans=sink.spans(rank), clock=ClockAlignment())
        for rank, host in enumerate(models)
    )
    return Trace(ranks=ranks, facts={})
