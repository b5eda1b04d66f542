"""What trains: DistributedDataParallel and Horovod, both over gloo, on the same six hosts and links."""

from __future__ import annotations

import importlib.util
from collections.abc import Mapping
from pathlib import Path
from types import MappingProxyType

from benchmarks.script_bed import python, torch_environ, up
from e2c_dl.emulation.relay.report import RelayReport
from e2c_dl.topology import Link, Pair

HOSTS = ("edge-1", "edge-2", "edge-3", "fog-1", "fog-2", "cloud-1")
PARAMETERS = 500_000
SIDES: Mapping[str, str] = MappingProxyType({"ddp": "benchmarks.flows.ddp", "horovod": "benchmarks.flows.horovod"})
WITHIN_S = 400.0


def links() -> dict[Pair, Link]:
    """50 Mbit/s and 5 ms; into edge hosts slower and longer, and between two fog hosts one segment in 200 is lost."""
    found = {}
    for src in HOSTS:
        for dst in HOSTS:
            edge = dst.startswith("edge")
            found[src, dst] = Link(rate_bps=30e6 if edge else 50e6, delay_s=0.01 if edge else 0.005)
    found["fog-2", "fog-1"] = Link(rate_bps=50e6, delay_s=0.005, loss=0.005)
    return {pair: link for pair, link in found.items() if pair[0] != pair[1]}


def missing(side: str) -> str | None:
    """Why ``side`` cannot train here; None: it can."""
    if side == "horovod" and importlib.util.find_spec("horovod") is None:
        return "horovod: it is not installed; make setup-horovod"
    return None


def train(side: str, folder: Path, *, iterations: int, seed: int) -> RelayReport:
    """The relay's report of a training whose ranks leave ``folder``/hosts. Raises: RuntimeError, if one fails."""
    with up(HOSTS) as bed:
        with bed.joined(links(), seed=seed) as joined:
            argv = python("-m", SIDES[side], str(iterations), str(PARAMETERS))
            bed.run(argv, torch_environ(bed), within_s=WITHIN_S)
        bed.collect(folder)
        if joined.report is None:
            raise RuntimeError("the relay left no report")
        return joined.report
