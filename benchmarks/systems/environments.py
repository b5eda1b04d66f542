"""Environments: how fast hosts compute and what links carry, rendered as network.yaml and emulation.yaml.

Six workers in three layers of two, as experiments/dlion-micro-clouds has them; what a layer is like changes::

                        cloud   fog   edge
    compute, times slower   1     2      4     (24, 12 and 6 cores)
    network, Mbit/s        50    35     20     a link has the rate of the slower of its two ends

Hop's and Prague's are 16 workers on a local network, of which one, or by chance any, is slow for a while. The small one
is three hosts, one per layer: what this machine can also train for real (live.py).
"""

from __future__ import annotations

import random
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field, replace
from itertools import product
from pathlib import Path
from statistics import fmean

import yaml

EXPERIMENT = Path(__file__).resolve().parents[2] / "experiments" / "dlion-micro-clouds"
LAYERS = ("cloud", "fog", "edge")
SIX: Mapping[str, int] = dict.fromkeys(LAYERS, 2)  # layer -> workers, as the experiment has them
THREE: Mapping[str, int] = dict.fromkeys(LAYERS, 1)
SIXTEEN: Mapping[str, int] = {"cloud": 8, "fog": 7, "edge": 1}
LAN_MBPS = 600.0
CORES = 0.16  # of one of this machine, that a host of factor 1 gets; as in the experiment
GRADIENT_S = 0.1  # about what a gradient takes a host of factor 1
DRAWN_S = 60.0  # what was drawn for so long comes again
CHANGES_S = 20  # dynamic: after so long the layers change places
UNLIKE_COMPUTE: Mapping[str, float] = {"cloud": 1, "fog": 2, "edge": 4}
UNLIKE_NETWORK: Mapping[str, float] = {"cloud": 50, "fog": 35, "edge": 20}


@dataclass(frozen=True, kw_only=True)
class Environment:
    """One environment. Rates in Mbit/s, by layer: a link between two has the smaller; delays one way."""

    name: str
    factors: Mapping[str, float] = field(default_factory=dict)  # layer -> times slower; absent: 1
    rates: Mapping[str, float] = field(default_factory=dict)  # absent: the LAN's
    between_mbps: float | None = None  # of links between layers instead; inside of one it is the LAN
    delay: str = "5ms"
    within_s: float = 150.0  # whoever is not accurate enough by then, is not
    changing: bool = False  # every CHANGES_S each layer becomes what the one before it was
    workers: Mapping[str, int] = field(default_factory=lambda: SIX)
    now_and_then: float | None = None  # times slower, any worker by itself, in one of as many iterations as workers

    def layers(self) -> list[str]:
        """The layer of each rank."""
        return [layer for layer in LAYERS for _ in range(self.workers[layer])]

    def factor(self, layer: str, phase: int = 0) -> float:
        return self.factors.get(_role(layer, phase), 1)

    def rate(self, src: str, dst: str, phase: int = 0) -> float:
        """Mbit/s from a host of layer ``src`` to one of ``dst``."""
        if self.between_mbps is not None and src != dst:
            return self.between_mbps
        return min(self.rates.get(_role(layer, phase), LAN_MBPS) for layer in (src, dst))

    def mean_rate(self, src: str, dst: str) -> float:
        """Mbit/s of such a link, over all phases."""
        return fmean(self.rate(src, dst, phase) for phase in range(len(LAYERS) if self.changing else 1))

    def files(self) -> dict[str, bytes]:
        """The files of the scenario that say it, by name."""
        said = {"network.yaml": self.network().encode(), "emulation.yaml": self.emulation().encode()}
        return said if self.workers == SIX else {**said, "layers_services.yaml": self.layers_services().encode()}

    def layers_services(self) -> str:
        """layers_services.yaml: the experiment's, of as many workers."""
        content = yaml.safe_load((EXPERIMENT / "layers_services.yaml").read_text(encoding="utf-8"))
        for layer in content["layers"]:
            layer["services"][0]["quantity"] = self.workers[layer["name"]]
        return yaml.safe_dump(content, sort_keys=False)

    def network(self) -> str:
        """network.yaml."""
        rules = [
            {"src": f"{src}.*", "dst": f"{dst}.*", "delay": self.delay, "rate": _mbit(self.rate(src, dst))}
            for src, dst in product(LAYERS, LAYERS)
        ]
        return yaml.safe_dump({"networks": rules}, sort_keys=False)

    def emulation(self) -> str:
        """emulation.yaml."""
        factors = {f"{layer}.*": self.factor(layer) for layer in LAYERS if self.factor(layer) != 1}
        content: dict[str, object] = {"compute": {"method": "sleep", "cores": CORES, "factors": factors}}
        if self.changing:
            content["schedules"] = {"links": list(self._link_schedules()), "compute": list(self._compute_schedules())}
        if self.now_and_then is not None:
            content["schedules"] = {"compute": list(self._slow_by_chance(self.now_and_then))}
        return yaml.safe_dump(content, sort_keys=False)

    def _link_schedules(self) -> Iterator[dict[str, object]]:
        for src, dst in product(LAYERS, LAYERS):
            steps = {f"{phase * CHANGES_S}s": _mbit(self.rate(src, dst, phase)) for phase in range(len(LAYERS))}
            yield {"src": f"{src}.*", "dst": f"{dst}.*", "rate": {"steps": steps, "period": self._period}}

    def _compute_schedules(self) -> Iterator[dict[str, object]]:
        for layer in LAYERS:
            steps = {f"{phase * CHANGES_S}s": self.factor(layer, phase) for phase in range(len(LAYERS))}
            yield {"host": f"{layer}.*", "factor": {"steps": steps, "period": self._period}}

    def _slow_by_chance(self, times: float) -> Iterator[dict[str, object]]:
        """Of each host iterations, one after the other, of which 1 of n, drawn, lasts ``times`` as long."""
        for host in (f"{layer}-{number + 1}" for layer in LAYERS for number in range(self.workers[layer])):
            drawn, at_s = random.Random(host), 0.0
            steps: dict[str, float] = {"0s": 1}
            while at_s < DRAWN_S:
                at_s += GRADIENT_S * (1 + int(drawn.expovariate(1 / len(self.layers()))))
                steps[f"{at_s:g}s"] = times
                at_s += GRADIENT_S * times
                steps[f"{at_s:g}s"] = 1
            yield {"host": host, "factor": {"steps": steps, "period": f"{at_s + GRADIENT_S:g}s"}}

    @property
    def _period(self) -> str:
        return f"{CHANGES_S * len(LAYERS)}s"


HOMOGENEOUS = Environment(name="homogeneous")
BOTH = Environment(name="compute and network", factors=UNLIKE_COMPUTE, rates=UNLIKE_NETWORK)
DLION: tuple[Environment, ...] = (
    HOMOGENEOUS,
    Environment(name="compute", factors=UNLIKE_COMPUTE),
    Environment(name="network", rates=UNLIKE_NETWORK),
    BOTH,
    Environment(name="dynamic", factors=UNLIKE_COMPUTE, rates=UNLIKE_NETWORK, changing=True),
)
WAN: tuple[Environment, ...] = tuple(
    Environment(name=f"WAN {times}x", between_mbps=LAN_MBPS / times, delay="25ms", within_s=600.0) for times in (15, 60)
)
"""Gaia's: a layer is a data centre; between two of them it is 15, at worst 60 times slower than inside."""

BANDWIDTHS_MBPS = (1, 3, 10, 30, 100)
BANDWIDTHS: tuple[Environment, ...] = tuple(
    Environment(name=f"{rate} Mbit/s", rates=dict.fromkeys(LAYERS, float(rate)), within_s=2000.0)
    for rate in BANDWIDTHS_MBPS
)
SIXTEEN_ALIKE = Environment(name="16 workers", workers=SIXTEEN, delay="200us")
PAPERS: tuple[Environment, ...] = (
    SIXTEEN_ALIKE,
    *(replace(SIXTEEN_ALIKE, name=f"16, one {times}x slower", factors={"edge": times}) for times in (2, 4, 5)),
    replace(SIXTEEN_ALIKE, name="16, 6x slower by chance", now_and_then=6),
)
"""One worker always slower: 4 times in Hop's (ASPLOS'19), 2 and 5 times in Prague's (ASPLOS'20); or any, Hop's."""
SMALL = Environment(name="network, three hosts", rates=UNLIKE_NETWORK, workers=THREE, within_s=40.0)
ALL: Mapping[str, Environment] = {each.name: each for each in (*DLION, *WAN, *BANDWIDTHS, *PAPERS, SMALL)}


def _role(layer: str, phase: int) -> str:
    return LAYERS[(LAYERS.index(layer) + phase) % len(LAYERS)]


def _mbit(rate: float) -> str:
    return f"{rate:g}mbit"
