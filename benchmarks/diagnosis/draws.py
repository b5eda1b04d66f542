"""Systems by chance: topology, hardware, strategy, model, and what is asked for by design; by seed and number alone.

A run is kept small enough to be simulated several times and analysed within seconds: iterations and hosts are as many
as MOST_MESSAGES allow. How long a gradient takes is drawn beside how long its propagation takes, for where one is
nothing beside the other, nothing that happens to it costs anything.
"""

from __future__ import annotations

import random
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import accumulate, pairwise, product
from pathlib import Path

from benchmarks.diagnosis.sending import SETTINGS, STRATEGIES, messages, pieces
from benchmarks.diagnosis.system import System, run_s
from e2c_dl import strategies
from e2c_dl.scenario.model import (
    SHAPES,
    ComputeEmulation,
    Injected,
    LinkSchedule,
    Scenario,
    Schedules,
    Tcp,
    Training,
)  # fmt: skip
from e2c_dl.scenario.schedule import Schedule
from e2c_dl.strategies.base import Setting
from e2c_dl.topology import Bottleneck, Host, Link, Pair, Topology
from e2c_dl.worlds.virtual import ComputeProfile, GradientTimes

MOST_MESSAGES = 5_000
ITERATIONS = (20, 60)
HOSTS = (4, 64)
MODEL_BYTES = (1e5, 2e7)
RATES_BPS = (5e6, 5e8)
DELAYS_S = (1e-3, 5e-2)
NOISE = (0.05, 0.15)
PEERS = 3
"""Hosts of one hardware class and batch size, at least: of two, nothing tells which is slow."""
MOST_SHARING = 12
MOST_BYTES = 8e8
"""Of all messages together: connections are simulated segment by segment. Large models have few hosts."""
MOST_SEGMENT_BYTES = 3e8
"""The same of links that always are, however long they are in use: those that share a line, or change."""
BATCHES = (8, 16, 32, 64)
SHORT = 8
"""Iterations of the run that tells how long propagation takes: some periods of those who seldom talk."""

_LAYERS = (("edge",), ("edge", "cloud"), ("edge", "fog"), ("edge", "fog", "cloud"))


@dataclass(frozen=True, kw_only=True)
class Balance:
    """How long a gradient takes beside its propagation, and how long data and steps beside it: from, to."""

    gradient: tuple[float, float] = (0.1, 4.0)
    data: tuple[float, float] = (0.03, 0.6)
    step: tuple[float, float] = (0.02, 0.4)


def drawn_system(chance: random.Random, balance: Balance) -> System:
    """A System by ``chance``, about as ``balance`` says."""
    name = chance.choice(STRATEGIES)
    settings = chance.choice(SETTINGS.get(name, ({},)))
    buckets = chance.randint(1, 6)
    hosts = _hosts(chance, chance.choice(_LAYERS), _most_hosts(name, settings, buckets))
    most = MOST_MESSAGES // messages(name, settings, len(hosts), buckets)
    iterations = max(ITERATIONS[0], min(chance.randint(*ITERATIONS), most))
    vectors = iterations * messages(name, settings, len(hosts), 1) / pieces(name, settings, len(hosts))
    model_bytes = min(_log_uniform(chance, *MODEL_BYTES), max(MODEL_BYTES[0], MOST_BYTES / vectors))
    links = _links(chance, hosts, _used(name, settings, hosts))
    shared = _bottlenecks(chance, links, hosts) if chance.random() < 0.25 else ()
    if 2 * model_bytes * iterations * sum(len(each.links) for each in shared) > MOST_SEGMENT_BYTES:
        shared = ()
    classes = _classes(chance, hosts)
    batches = _batches(chance, hosts, classes)
    factors = {host.name: factor for factor, host in _designed_factors(chance, hosts)}
    scenario = Scenario(
        name="campaign", path=Path(),
        topology=Topology(hosts=hosts, links=links, bottlenecks=shared),
        trained=Training(
            strategy=name, model="drawn", dataset="none", mathematics=SHAPES, iterations=iterations,
            batch_sizes=tuple(batches[host.name] for host in hosts), learning_rate=0.1, momentum=0.0,
            strategy_settings=settings, seed=chance.randrange(1 << 30), dtype="float32", evaluate_every=0,
            bucket_bytes=round(model_bytes / buckets),
        ),
        compute=ComputeEmulation(method="sleep", cores=None, factors=factors),
        injected=Injected(seed=0, compute={}, links={}),
        tcp=Tcp(congestion_control="cubic", slow_start_after_idle=False),
    )  # fmt: skip
    says = chance.random() >= 0.1
    system = System(
        scenario=scenario, profiles={}, noise=chance.uniform(*NOISE),
        hardware={host: of if says else None for host, of in classes.items()},
    )  # fmt: skip
    return _computing(chance, system, classes, balance, model_bytes, buckets)


def _computing(
    chance: random.Random, system: System, classes: Mapping[str, str], balance: Balance, model_bytes: float,
    buckets: int,
) -> System:  # fmt: skip
    """``system`` with hardware that takes a time for a gradient that is drawn beside what propagation takes."""
    kinds, cuts = sorted(set(classes.values())), _bounds(chance, max(buckets * 64, round(model_bytes / 4)), buckets)
    data, step = _log_uniform(chance, *balance.data), _log_uniform(chance, *balance.step)
    slow = {of: _log_uniform(chance, 1.0, 3.0) if index else 1.0 for index, of in enumerate(kinds)}

    def computing(gradient_s: float) -> System:
        profiles = {of: _profile(cuts, gradient_s * slow[of], data, step) for of in kinds}
        return replace(system, profiles={host: profiles[of] for host, of in classes.items()})

    propagation_s = run_s(replace(computing(1e-4), scenario=_short(system.scenario)).run()) / SHORT
    gradient_s = max(0.005, propagation_s * _log_uniform(chance, *balance.gradient))
    made, scenario = computing(gradient_s), system.scenario
    about_s = scenario.training.iterations * (gradient_s + propagation_s)
    schedules = _schedules(chance, scenario, about_s)
    return replace(made, scenario=replace(scenario, schedules=schedules))


def _short(scenario: Scenario) -> Scenario:
    """SHORT iterations of ``scenario`` whose links lose nothing: what is lost would be simulated segment by segment."""
    links = {pair: replace(link, loss=0.0) for pair, link in scenario.topology.links.items()}
    topology, training = replace(scenario.topology, links=links), replace(scenario.training, iterations=SHORT)
    return replace(scenario, topology=topology, trained=training)


def _log_uniform(chance: random.Random, least: float, most: float) -> float:
    return float(least * (most / least) ** chance.random())


def _most_hosts(name: str, settings: Mapping[str, Setting], buckets: int) -> int:
    """The most for which the fewest iterations are few enough messages."""
    fitting = [
        size for size in range(HOSTS[0], HOSTS[1] + 1)
        if messages(name, settings, size, buckets) * ITERATIONS[0] <= MOST_MESSAGES
    ]  # fmt: skip
    return max(fitting, default=HOSTS[0])


def _hosts(chance: random.Random, layers: Sequence[str], most: int) -> tuple[Host, ...]:
    """Layers of at least two hosts, the first the largest."""
    size = round(_log_uniform(chance, HOSTS[0], most))
    size = max(size, 2 * len(layers))
    upper = [max(2, round(size * share)) for share in (0.3, 0.2)][: len(layers) - 1]
    counts = [max(2, size - sum(upper)), *upper]
    named = [(layer, number + 1) for layer, count in zip(layers, counts, strict=True) for number in range(count)]
    return tuple(
        Host(
            name=f"{layer}-{number}", layer=layer, service="Trainer", role=f"{layer}.trainer.1.{number}", rank=rank,
            service_id=f"{layers.index(layer) + 1}_1_{number}",
        )
        for rank, (layer, number) in enumerate(named)
    )  # fmt: skip


def _used(name: str, settings: Mapping[str, Setting], hosts: Sequence[Host]) -> list[tuple[Host, Host]]:
    pairs = strategies.load(name)(**settings).used_links([host.layer for host in hosts])
    return [(hosts[src], hosts[dst]) for src, dst in pairs]


def _links(chance: random.Random, hosts: Sequence[Host], used: Sequence[tuple[Host, Host]]) -> dict[Pair, Link]:
    """One quality for each pair of layers, the same both ways in most; a few links are asked to lose segments."""
    layers = list(dict.fromkeys(host.layer for host in hosts))
    between: dict[Pair, Link] = {}
    for src, dst in product(layers, repeat=2):
        if (dst, src) in between and chance.random() < 0.7:
            between[src, dst] = between[dst, src]
            continue
        delay_s = round(_log_uniform(chance, *DELAYS_S), 4)
        jitter_s = 0.0 if chance.random() < 0.4 else round(min(3e-3, delay_s * chance.uniform(0.02, 0.15)), 5)
        between[src, dst] = Link(
            rate_bps=round(_log_uniform(chance, *RATES_BPS), -4), delay_s=delay_s, jitter_s=jitter_s
        )
    links = {(src.name, dst.name): between[src.layer, dst.layer] for src, dst in used}
    if chance.random() < 0.2:
        for pair in chance.sample(sorted(links), k=min(len(links), chance.randint(1, 3))):
            link = links[pair]
            loss = round(_log_uniform(chance, 5e-4, 5e-3), 5)
            links[pair] = Link(rate_bps=link.rate_bps, delay_s=link.delay_s, jitter_s=link.jitter_s, loss=loss)
    return links


def _bottlenecks(chance: random.Random, links: Mapping[Pair, Link], hosts: Sequence[Host]) -> tuple[Bottleneck, ...]:
    """All links from one layer to others, or into one host, through one access."""
    layer_of = {host.name: host.layer for host in hosts}
    layer, host = chance.choice(hosts).layer, chance.choice(hosts).name
    leaving = sorted(pair for pair in links if layer_of[pair[0]] == layer != layer_of[pair[1]])
    into = sorted(pair for pair in links if pair[1] == host)
    through = leaving if 1 < len(leaving) <= MOST_SHARING else into
    through = [pair for pair in through if not links[pair].loss]
    if not 1 < len(through) <= MOST_SHARING:
        return ()
    whole_bps = sum(links[pair].rate_bps or 0.0 for pair in through)
    rate_bps = max(RATES_BPS[0], round(whole_bps * chance.uniform(0.25, 0.8), -4))
    return (Bottleneck(name="access", rate_bps=rate_bps, links=tuple(through)),)


def _classes(chance: random.Random, hosts: Sequence[Host]) -> dict[str, str]:
    """Host -> hardware class: all alike, or by layer, or two kinds in all layers; each with its PEERS."""
    way, names = chance.random(), [host.name for host in hosts]
    by_layer = {host.name: f"board of {host.layer}" for host in hosts}
    if way < 0.35 and all(list(by_layer.values()).count(each) >= PEERS for each in by_layer.values()):
        return by_layer
    if 0.35 <= way < 0.6 and len(names) >= 2 * PEERS + 2:
        old = set(chance.sample(names, k=chance.randint(PEERS, len(names) - PEERS)))
        return {name: "old board" if name in old else "new board" for name in names}
    return dict.fromkeys(names, "board")


def _batches(chance: random.Random, hosts: Sequence[Host], classes: Mapping[str, str]) -> dict[str, int]:
    """Host -> samples; alike for all of a hardware class."""
    sizes = {of: chance.choice(BATCHES) for of in sorted(set(classes.values()))}
    return {host.name: sizes[classes[host.name]] for host in hosts}


def _bounds(chance: random.Random, parameters: int, buckets: int) -> list[tuple[int, int]]:
    """Begin and end of each bucket in the flat vector, the last parameters first; unlike lengths."""
    shares = [chance.uniform(0.5, 2.0) for _ in range(buckets)]
    ends = [round(parameters * (1 - part / sum(shares))) for part in accumulate([0.0, *shares])]
    return [(begin, end) for end, begin in pairwise(ends)]


def _profile(bounds: Sequence[tuple[int, int]], gradient_s: float, data: float, step: float) -> ComputeProfile:
    """Hardware whose forward and backward of 32 samples take ``gradient_s``; ``data`` and ``step`` are beside that."""
    parameters = bounds[0][1]
    return ComputeProfile(
        model="drawn", dtype="float32", parameters=parameters, buckets=tuple(bounds),
        gradients={samples: _times(bounds, gradient_s, data, samples / 32) for samples in BATCHES},
        step_s=gradient_s * step, copy_s_per_byte=5e-11, accumulate_s_per_byte=1e-10, scale_s_per_byte=5e-11,
    )  # fmt: skip


def _times(bounds: Sequence[tuple[int, int]], gradient_s: float, data: float, part: float) -> GradientTimes:
    whole_s, parameters = gradient_s * (0.1 + 0.9 * part), bounds[0][1]  # some of it is always the same
    return GradientTimes(
        data_s=gradient_s * data * part, forward_s=whole_s / 3,
        backward_s=tuple(whole_s * 2 / 3 * (end - begin) / parameters for begin, end in bounds),
    )  # fmt: skip


def _designed_factors(chance: random.Random, hosts: Sequence[Host]) -> list[tuple[float, Host]]:
    """In a third of the systems one layer is slower by design."""
    layers = list(dict.fromkeys(host.layer for host in hosts))
    slow, factor = chance.choice(layers), round(chance.uniform(1.2, 3.0), 2)
    if chance.random() >= 1 / 3:
        return []
    return [(factor, host) for host in hosts if host.layer == slow]


def _schedules(chance: random.Random, scenario: Scenario, about_s: float) -> Schedules:
    """In a fifth of the systems one link, or one host, changes by design, twice within ``about_s``."""
    links, factors = scenario.topology.links, scenario.compute.factors
    way, host, pair = chance.random(), chance.choice(scenario.topology.names), chance.choice(sorted(links))
    moments = sorted(chance.uniform(0.1, 0.9) * about_s for _ in range(2))
    steps = [(at_s, chance.uniform(0.4, 1.0)) for at_s in moments]
    if way < 0.1 and not links[pair].loss:
        rate_bps = links[pair].rate_bps or RATES_BPS[1]
        points = ((0.0, rate_bps), *((at_s, rate_bps * value) for at_s, value in steps))
        return Schedules(links={pair: LinkSchedule(rate_bps=Schedule(points=points))})
    if way < 0.2:
        factor = factors.get(host, 1.0)
        points = ((0.0, factor), *((at_s, factor / value) for at_s, value in steps))
        return Schedules(compute={host: Schedule(points=points)})
    return Schedules()
