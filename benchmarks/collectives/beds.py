"""Traced trainings on a bed of hosts, and their archives: ranks are traced as ``e2c-dl trace`` traces them."""

from __future__ import annotations

import itertools
from collections.abc import Mapping, Sequence
from pathlib import Path

from benchmarks.script_bed import Bed, python, torch_environ
from e2c_dl.campaign.traced import collected
from e2c_dl.topology import Link, Pair
from e2c_dl.tracing.settings import Settings

HOSTS = ("a", "b", "c", "d", "e", "f")
TRACED = "traced"
WITHIN_S = 400.0
_PORTS = itertools.count(29600)


def links(rate_bps: float, delay_s: float, other: Mapping[Pair, Link]) -> dict[Pair, Link]:
    """Between all pairs of HOSTS alike, but for ``other``."""
    alike = Link(rate_bps=rate_bps, delay_s=delay_s)
    return {pair: other.get(pair, alike) for pair in itertools.permutations(HOSTS, 2)}


def trained(bed: Bed, on: Mapping[Pair, Link], argv: Sequence[str], folder: Path, seed: int) -> Path:
    """The archive, in ``folder``, of ``argv`` run by this interpreter on every host. Raises: RuntimeError."""
    port = next(_PORTS)
    environ = torch_environ(bed, port=port)

    def traced(number: int) -> dict[str, str]:
        own = environ(number)
        return Settings(archive=Path(own["HOST_DIR"]) / TRACED, layer="all").environment(own)

    with bed.joined(on, seed=seed):
        bed.run(python(*argv), traced, within_s=WITHIN_S)
    bed.collect(folder / "left")
    left = [folder / "left" / "hosts" / access.name / TRACED for access in bed.accesses]
    return collected(left, folder / "archive")
