"""Foreseen use of a scenario's links: what its strategy will send over each, tried in a short run of shapes alone.

Tried over the network as designed, without what is injected: nothing is given away.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace

import numpy as np

from e2c_dl import strategies
from e2c_dl.drivers.virtual import inputs
from e2c_dl.errors import InputError
from e2c_dl.scenario.load import links_of_strategy
from e2c_dl.scenario.model import Scenario, Training
from e2c_dl.topology import Link, Pair
from e2c_dl.trace.model import Phase
from e2c_dl.worlds.virtual import InMemory, bottlenecks, link_models, simulate
from e2c_dl.worlds.virtual.profile import ComputeProfile

MOST_TRIED, MOST_SENT = 2000, 20_000  # iterations of all ranks together, and uses of links: a second or two
LEAST_TRIED = 8
MANY_LINKS = 300
"""Connections of more would take seconds to begin, each with its slow start: they have none."""


@dataclass(frozen=True, kw_only=True)
class LinkUse:
    """Use of the links by training."""

    bytes_per_iteration: Mapping[Pair, float]  # by the receiver's iterations, headers of messages included
    unknown: str  # why it is not known how much each carries, and what tells it; empty: it is known
    unused: tuple[Pair, ...]  # links with a quality of their own that training has no message for


def link_use(scenario: Scenario, profile: ComputeProfile | None) -> LinkUse:
    """What training will send over the links of ``scenario``; which it will use alone, without ``profile``, and where
    sizes depend on values.

    Raises: InputError, if the strategy's settings are wrong or the profile cannot tell of a batch size.
    """
    ranks = scenario.topology.ranks
    used = [(ranks[s].name, ranks[d].name) for s, d in
            links_of_strategy(scenario.training, [host.layer for host in ranks])]  # fmt: skip
    carried, unknown = dict.fromkeys(sorted(used), 0.0), _unknown(scenario, profile)
    if profile is not None and not unknown:
        carried |= _carried(scenario, profile, len(carried))
    unused = [pair for pair, link in scenario.topology.links.items() if pair not in carried and link != Link()]
    return LinkUse(bytes_per_iteration=carried, unknown=unknown, unused=tuple(unused))


def _tried(training: Training, links: int) -> int:
    """Iterations of each rank that tell of all: those of the training itself, or whole cycles of its strategy."""
    cycle = strategies.load(training.strategy)(**training.strategy_settings).cycle
    enough = max(min(MOST_TRIED // len(training.batch_sizes), MOST_SENT // max(1, links)), LEAST_TRIED)
    return min(training.iterations, -(-enough // cycle) * cycle)


def _unknown(scenario: Scenario, profile: ComputeProfile | None) -> str:
    if profile is None:
        return f"how much each carries is known once the model was measured: e2c-dl calibrate {scenario.path}"
    training = scenario.training
    try:
        strategies.load(training.strategy)(**training.strategy_settings).check_shapes()
    except InputError as error:
        return f"how much each carries is not known: {error}"
    return ""


def _carried(scenario: Scenario, profile: ComputeProfile, links: int) -> dict[Pair, float]:
    iterations, tcp = _tried(scenario.training, links), scenario.tcp if links <= MANY_LINKS else None
    training = replace(scenario.training, iterations=iterations, budget=None)
    strategy = strategies.load(training.strategy)
    hosts, sink = inputs.host_models(scenario, profile), InMemory()
    simulate(
        lambda: strategy(**training.strategy_settings), hosts=hosts, sink=sink, iterations=iterations,
        links=link_models(scenario.topology, tcp), bottlenecks=bottlenecks(scenario.topology),
        seed=training.seed, as_seen=training.wrapping,
    )  # fmt: skip
    carried: dict[Pair, float] = {}
    for rank, host in enumerate(hosts):
        spans = sink.spans(rank)
        sent = spans[spans["phase"] == Phase.SEND]
        for dst in np.unique(sent["dst"]).tolist():
            carried[host.name, hosts[dst].name] = float(sent["nbytes"][sent["dst"] == dst].sum()) / iterations
    return carried
