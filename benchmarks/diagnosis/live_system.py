"""Scenarios of six hosts for live runs, by chance, and what is injected into them, as emulation.yaml says it.

A slow host or link is ``injected.compute`` or ``injected.links`` where it is slow all the time; all else is a fault:
later, lossier or slower from a time of training on. Data and steps take a part of a gradient's time by design, and
times ``factor`` of that where they are injected.
"""

from __future__ import annotations

import json
import random
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from benchmarks.diagnosis.drawn import FACTORS, LAYER, ONE, TWO, Planned, amount_of
from benchmarks.diagnosis.injections import Injection, What, When
from e2c_dl import strategies
from e2c_dl.scenario.workflow import PROFILE
from e2c_dl.strategies.base import Setting
from e2c_dl.topology import Pair
from e2c_dl.worlds.virtual import ComputeProfile, GradientTimes

FIRST_LIGHT = Path(__file__).parents[2] / "experiments" / "first-light"
LAYERS = ("edge", "cloud")
HOSTS = tuple(f"{layer}-{number}" for layer in LAYERS for number in (1, 2, 3))
STRATEGIES: Sequence[tuple[str, Mapping[str, Setting]]] = (
    ("allreduce", {}), ("butterfly", {}), ("powersgd", {}), ("parameterserver", {}), ("localsgd", {"period": 2}),
    ("diloco", {"period": 2}), ("gaia", {"selectivity": 0.5}), ("hop", {}), ("fedat", {}), ("adpsgd", {}),
    ("asyncparameterserver", {}),
)  # fmt: skip
"""Measured rates decide who sends how much in ``butterfly``, and chance who asks whom in ``adpsgd``, of the others
neither: a single run tells what an injection costs."""
STEPS_AT_ONE = frozenset({"parameterserver", "asyncparameterserver"})
"""Of these one host steps alone: all the time, nobody could tell a slow step from its design."""
WHATS = {What.COMPUTE: 3, What.DATA: 2, What.STEP: 2, What.RATE: 4, What.DELAY: 3, What.LOSS: 1}
OF_LAYERS = {What.COMPUTE: 2, What.RATE: 2, What.DELAY: 1}
SHORT, LASTS_S, ITERATIONS = 8, 12.0, (24, 80)
REPEATS = 40  # a slowed run is longer: periods go on beyond the undisturbed one's end
_FAULTS = {
    What.COMPUTE: "slow_host", What.DATA: "late_data", What.STEP: "late_step", What.RATE: "slow_link",
    What.DELAY: "late_link", What.LOSS: "lossy_link",
}  # fmt: skip


@dataclass(frozen=True, kw_only=True)
class LiveSystem:
    """A scenario of six hosts before anything is injected."""

    strategy: str
    settings: Mapping[str, Setting]
    iterations: int
    rate_mbit: int
    delay_ms: int
    profile: ComputeProfile
    seed: int

    def write(self, folder: Path, injections: Sequence[Injection] = (), undisturbed_s: float = 0.0) -> Path:
        """Its files, with ``injections``, in ``folder``, which is made."""
        folder.mkdir()
        training = {
            "strategy": self.strategy, "mathematics": "shapes", "iterations": self.iterations, "batch_size": 16,
            "model": self.profile.model, "seed": self.seed, "strategy_settings": dict(self.settings),
        }  # fmt: skip
        layers = [
            {"name": layer, "services": [{"name": "Trainer", "quantity": 3, "env": training}]} for layer in LAYERS
        ]
        environment = {"job_name": "diagnosis", "walltime": "00:10:00", "g5k": {"job_type": [], "cluster": "paradoxe"}}
        network = {"src": "*.*", "dst": "*.*", "rate": f"{self.rate_mbit}mbit", "delay": f"{self.delay_ms}ms"}
        files = {
            "layers_services": {"environment": environment, "layers": layers},
            "network": {"networks": [network]},
            "emulation": {"compute": {"method": "sleep"}, "injected": self._injected(injections, undisturbed_s)},
        }
        for name, content in files.items():
            (folder / f"{name}.yaml").write_text(json.dumps(content))  # JSON is YAML
        (folder / "workflow.yaml").write_text((FIRST_LIGHT / "workflow.yaml").read_text())
        (folder / PROFILE).write_text(self.profile.to_json())
        return folder

    @property
    def used_links(self) -> list[Pair]:
        pairs = strategies.load(self.strategy)(**self.settings).used_links([_layer(host) for host in HOSTS])
        return [(HOSTS[src], HOSTS[dst]) for src, dst in pairs]

    def _injected(self, injections: Sequence[Injection], undisturbed_s: float) -> dict[str, Any]:
        """The section ``injected`` of emulation.yaml."""
        found: dict[str, Any] = {"seed": 1, "compute": [], "links": [], "faults": []}
        for each in injections:
            how = self._how(each)
            if each.when is When.PERSISTENT and each.what is What.COMPUTE:
                found["compute"] += [{"host": host, **how} for host in each.hosts]
            elif each.when is When.PERSISTENT and each.what is What.RATE:
                found["links"] += [{"src": src, "dst": dst, **how} for src, dst in each.links]
            else:
                places = [*each.hosts] or [[{"src": src, "dst": dst} for src, dst in each.links]]
                windows = list(_windows(each, undisturbed_s))
                found["faults"] += [
                    {_FAULTS[each.what]: place, **how, **window} for place in places for window in windows
                ]
        return {name: entries for name, entries in found.items() if entries}

    def _how(self, injection: Injection) -> dict[str, Any]:
        """What an entry says beside its place and its time."""
        times = self.profile.gradient(16)
        match injection.what:
            case What.COMPUTE:
                return {"factor": injection.amount}
            case What.RATE:
                return {"rate_factor": 1 / injection.amount}
            case What.DELAY:
                return {"delay": _time(injection.amount)}
            case What.LOSS:
                return {"loss": f"{injection.amount * 100:g}%"}
            case What.DATA:
                return {"delay": _time((injection.amount - 1) * times.data_s)}
            case _:
                return {"delay": _time((injection.amount - 1) * self.profile.step_s)}


def drawn_system(chance: random.Random, iteration_s: Callable[[LiveSystem], float]) -> LiveSystem:
    """A system whose undisturbed run lasts about LASTS_S, by the ``iteration_s`` of a short one."""
    strategy, settings = chance.choice(STRATEGIES)
    gradient_s = chance.uniform(0.05, 0.15)
    lengths = ((100_000, 250_000), (0, 100_000))
    times = GradientTimes(
        data_s=gradient_s * chance.uniform(0.2, 0.5), forward_s=gradient_s / 3,
        backward_s=(gradient_s / 3, gradient_s / 3),
    )  # fmt: skip
    profile = ComputeProfile(
        model="cnn", dtype="float32", parameters=250_000, buckets=lengths, gradients={16: times},
        step_s=gradient_s * chance.uniform(0.2, 0.4), evaluate_s=1e-3, copy_s_per_byte=1e-10,
        accumulate_s_per_byte=2e-10, scale_s_per_byte=1e-10,
    )  # fmt: skip
    short = LiveSystem(
        strategy=strategy, settings=settings, iterations=SHORT, rate_mbit=chance.randint(20, 60),
        delay_ms=chance.randint(2, 10), profile=profile, seed=chance.randrange(1 << 30),
    )  # fmt: skip
    iterations = round(min(max(LASTS_S / iteration_s(short), ITERATIONS[0]), ITERATIONS[1]))
    return replace(short, iterations=iterations)


def drawn_injections(chance: random.Random, system: LiveSystem, wanted: str) -> tuple[Injection, ...]:
    """ONE or TWO hosts or links, or all of a LAYER; none where what was drawn does not fit."""
    found: list[Injection] = []
    for _ in range({ONE: 1, LAYER: 1, TWO: 2}[wanted]):
        weights = OF_LAYERS if wanted == LAYER else WHATS
        what, when = chance.choices(list(weights), list(weights.values()))[0], chance.choice(list(When))
        if what is What.STEP and system.strategy in STEPS_AT_ONE:
            when = When.LAST_THIRD
        plan = Planned(what=what, when=when, factor=chance.choice(FACTORS), layer=wanted == LAYER)
        begin, length, period = {
            When.PERSISTENT: (0.0, 1.0, 0.0),
            When.LAST_THIRD: (2 / 3, 1 / 3, 0.0),
            When.ONCE: (chance.uniform(0.2, 0.5), chance.uniform(0.15, 0.3), 0.0),
            When.PERIODIC: (0.0, 0.1, 0.25),
        }[when]
        hosts, links, layer = _whom(chance, system, plan)
        found.append(
            Injection(
                what=what, when=when, factor=plan.factor,
                amount=amount_of(what, plan.factor, system.delay_ms / 1e3), begin=begin, length=length, period=period,
                hosts=hosts, links=links, layer=layer,
            )
        )  # fmt: skip
    names = [name for each in found for name in each.names]
    return tuple(found) if names and len(set(names)) == len(names) else ()


def _whom(
    chance: random.Random, system: LiveSystem, plan: Planned
) -> tuple[tuple[str, ...], tuple[Pair, ...], str | None]:
    """(hosts, links, the layer that they all are of)."""
    if not plan.layer:
        if plan.what.of_host:
            return (chance.choice(HOSTS),), (), None
        return (), (chance.choice(system.used_links),), None
    if plan.what.of_host:
        layer = chance.choice(LAYERS)
        return tuple(host for host in HOSTS if _layer(host) == layer), (), layer
    groups: dict[Pair, list[Pair]] = {}
    for src, dst in sorted(system.used_links):
        groups.setdefault((_layer(src), _layer(dst)), []).append((src, dst))
    several = sorted((ways, pairs) for ways, pairs in groups.items() if len(pairs) > 1)
    if not several:
        return (), (), None
    (src_layer, dst_layer), pairs = chance.choice(several)
    return (), tuple(pairs), f"{src_layer} -> {dst_layer}"


def _windows(injection: Injection, undisturbed_s: float) -> Iterator[dict[str, str]]:
    """When a fault begins and how long it lasts, each time."""
    if injection.when is When.PERSISTENT:
        yield {"at": "0s"}
        return
    first_s = injection.onset_s(undisturbed_s)
    lasts = {} if injection.when is When.LAST_THIRD else {"for": _time(injection.length * undisturbed_s)}
    for number in range(REPEATS if injection.when is When.PERIODIC else 1):
        yield {"at": _time(first_s + number * injection.period * undisturbed_s), **lasts}


def _layer(host: str) -> str:
    return host.rsplit("-", 1)[0]


def _time(seconds: float) -> str:
    return f"{seconds * 1e3:.3f}ms"
