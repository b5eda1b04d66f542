"""Made-up runs to compare."""

from dataclasses import replace

import numpy as np

from e2c_dl.diagnosis.comparing.compare import Comparison, Difference, Metric, compare
from e2c_dl.diagnosis.comparing.figures import Group, Run
from e2c_dl.trace.model import State

SETTINGS = {"model": "cnn", "dataset": "digits", "strategy": "allreduce", "batch_sizes": [16, 16]}


def run(name: str, *, iterations: int = 50, seed: int = 1, **known) -> Run:
    """One run of made-up iterations, of a second each but for what is ``known``."""
    seconds = known.get("iteration_s", np.ones(iterations))
    made = Run(
        name=name, seeds=(("training", seed),), settings=SETTINGS, world="virtual", finished=True,
        run_s=float(seconds.sum()), iteration_s=seconds, iteration_bytes=np.full(len(seconds), 1e6), accuracies=(),
        states_s={"edge-1": {State.COMPUTE: float(seconds.mean())}}, culprits=(),
    )  # fmt: skip
    return replace(made, **known)


def alone(*runs: Run, **asked) -> Comparison:
    return compare([Group(name=one.name, runs=(one,)) for one in runs], **asked)


def by_metric(found: Comparison) -> dict[Metric, Difference]:
    return {difference.metric: difference for difference in found.contrasts[0].differences}


def drawn(seed: int, seconds: float, noise: float) -> np.ndarray:
    return np.random.default_rng(seed).normal(seconds, noise, size=50)
