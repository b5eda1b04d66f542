"""Sequences of durations until something comes, in seconds; infinite: it never came.

Recorded ones are times between messages of the live world on emulated links of a busy machine (``recorded.json``, made
by ``python -m benchmarks.deadlines --record``), stretches of 400 of them, with and without losses thrown in. Synthetic
ones are of the shapes below, the same number of each, of scales from a millisecond to ten seconds.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path

import numpy as np
import numpy.typing as npt

Seconds = npt.NDArray[np.float64]
Random = np.random.Generator

LENGTH = 400
LOSSES = (0.0, 0.002, 0.01)  # of what is waited for, over TCP: a peer that is gone
RECORDED = Path(__file__).with_name("recorded.json")


def _noisy(random: Random, level: Seconds) -> Seconds:
    return np.clip(level * random.normal(1.0, 0.1, len(level)), 0.1, None)


SHAPES: Mapping[str, Callable[[Random, int], Seconds]] = {
    "steady": lambda random, n: np.clip(random.normal(1.0, 0.05, n), 0.1, None),
    "log-normal 0.3": lambda random, n: random.lognormal(0.0, 0.3, n),
    "log-normal 0.6": lambda random, n: random.lognormal(0.0, 0.6, n),
    "exponential": lambda random, n: 0.2 + random.exponential(1.0, n),
    "heavy tail (Pareto 2.5)": lambda random, n: 1.0 + random.pareto(2.5, n),
    "one in ten 4 x slower": lambda random, n: _noisy(random, np.where(random.random(n) < 0.1, 4.0, 1.0)),
    "every tenth 6 x slower": lambda random, n: _noisy(random, np.where(np.arange(n) % 10 == 0, 6.0, 1.0)),
    "drifts to 3 x": lambda random, n: _noisy(random, np.linspace(1.0, 3.0, n)),
    "jumps to 3 x": lambda random, n: _noisy(random, np.where(np.arange(n) < n // 2, 1.0, 3.0)),
}


def sequences(count: int, seed: int) -> Iterator[tuple[str, float, Seconds]]:
    """(shape, rate of losses, durations), ``count`` of them, recorded ones in turn with each synthetic shape."""
    random = np.random.default_rng(seed)
    recorded = [np.array(each) for each in json.loads(RECORDED.read_text())["durations_s"]]
    names = [*SHAPES, "recorded"]
    for index in range(count):
        name, lost = names[index % len(names)], LOSSES[index // len(names) % len(LOSSES)]
        if name == "recorded":
            own = recorded[index // len(names) % len(recorded)]
            begin = int(random.integers(0, max(1, len(own) - LENGTH)))
            durations_s = own[begin : begin + LENGTH].copy()
        else:
            durations_s = SHAPES[name](random, LENGTH) * 10.0 ** random.uniform(-3.0, 1.0)
        durations_s[random.random(len(durations_s)) < lost] = np.inf
        yield name, lost, durations_s
