"""What a run of the campaign meets, by seed and number alone: testbed, faults, when each comes, which host it hits."""

from __future__ import annotations

import random
from collections.abc import Iterator
from dataclasses import dataclass
from itertools import count

from benchmarks.faults.kinds import KINDS, STAGES, TESTBEDS

HOSTS = ("edge-1", "cloud-1")
_TWO = 0.25
"""Share of runs that meet two faults."""

_LASTS_S = {
    "provision": 0.3, "deploy": 1.2, "emulate": 0.2, "prepare": 0.8, "train": 6.0, "collect": 1.3, "release": 0.3,
    "verify": 0.02, "report": 0.6,
}  # fmt: skip
"""About how long each stage lasts: a fault comes at a moment of it, and in the next one if it was over before."""


@dataclass(frozen=True, kw_only=True)
class Fault:
    """One fault: its kind, so many seconds after a stage has begun, at a host if it hits one."""

    kind: str
    stage: str
    after_s: float
    host: str

    def __str__(self) -> str:
        where = f" at {self.host}" if KINDS[self.kind].of_host else ""
        return f"{self.kind}{where} {self.after_s:.2f} s into {self.stage}"


@dataclass(frozen=True, kw_only=True)
class Drawn:
    """One run of the campaign."""

    seed: int
    number: int
    testbed: str
    faults: tuple[Fault, ...]  # in the order in which they come

    @property
    def limit_s(self) -> float:
        return max(KINDS[fault.kind].limit_s for fault in self.faults)


def drawn(seed: int, number: int) -> Drawn:
    """Run ``number`` of the campaign of ``seed``."""
    chance = random.Random(f"{seed}/{number}")
    testbed = chance.choice(TESTBEDS)
    names = [name for name, kind in KINDS.items() if testbed in kind.testbeds]
    wanted = 2 if chance.random() < _TWO else 1
    faults: list[Fault] = []
    while len(faults) < wanted:
        name = chance.choices(names, [KINDS[each].weight for each in names])[0]
        stage = chance.choice(KINDS[name].stages)
        fault = Fault(
            kind=name, stage=stage, after_s=round(chance.random() * _LASTS_S[stage], 3), host=chance.choice(HOSTS)
        )
        if name not in {other.kind for other in faults}:
            faults.append(fault)
    order = sorted(faults, key=lambda fault: (STAGES.index(fault.stage), fault.after_s))
    return Drawn(seed=seed, number=number, testbed=testbed, faults=tuple(order))


def campaign(seed: int, runs: int, testbeds: tuple[str, ...], only: tuple[str, ...]) -> Iterator[Drawn]:
    """The first ``runs`` of the campaign of ``seed`` that are on one of ``testbeds`` and meet one of ``only``."""
    found = 0
    for number in count():
        one = drawn(seed, number)
        if one.testbed in testbeds and any(fault.kind in only for fault in one.faults):
            yield one
            found += 1
            if found == runs:
                return
