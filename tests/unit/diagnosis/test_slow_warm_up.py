"""First iterations that cost much are nobody's: it is said that they were not judged."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
import virtual_world

from e2c_dl.diagnosis.analyse import analyse
from e2c_dl.diagnosis.window import window
from e2c_dl.scenario.schedule import Schedule
from e2c_dl.strategies.allreduce import Allreduce
from e2c_dl.trace.model import GRADIENT, Phase
from e2c_dl.worlds.virtual import LinkModel

SIZE, ITERATIONS = 3, 40
PROFILE = virtual_world.profile(per_sample_s=5e-3)
SAID = "Of warm-up nobody is judged: the first 2 iterations took "


@pytest.mark.parametrize(
    ("times", "until_s", "is_said"), [(8.0, 0.05, True), (1.5, 0.05, False), (1.0, 0.05, False), (2.5, 1.0, False)]
)
def test_a_slow_warm_up_is_said_to_be_nobodys_where_it_cost_much(times: float, until_s: float, is_said: bool) -> None:
    first, *others = virtual_world.hosts(SIZE, of=PROFILE, noise=0.02)
    slow = Schedule(points=((0.0, times), (until_s, 1.0)))  # asked for where a phase begins
    run = virtual_world.run(
        Allreduce, size=SIZE, iterations=ITERATIONS, links=virtual_world.everywhere(SIZE, LinkModel(rate_bps=1e9)),
        on_hosts=(replace(first, slower=dict.fromkeys(GRADIENT, slow)), *others),
    )  # fmt: skip
    found = analyse(run.trace, run.reference())
    assert bool(found.culprits) is (until_s > 0.5)
    assert any(each.startswith(SAID) for each in found.limitations) is is_said


def test_the_first_of_a_runs_last_iterations_are_no_warm_up() -> None:
    first, *others = virtual_world.hosts(SIZE, of=PROFILE, noise=0.02)
    slow = Schedule(points=((0.0, 1.0), (0.6, 8.0), (1.2, 1.0)))
    run = virtual_world.run(
        Allreduce, size=SIZE, iterations=ITERATIONS, links=virtual_world.everywhere(SIZE, LinkModel(rate_bps=1e9)),
        on_hosts=(replace(first, slower=dict.fromkeys(GRADIENT, slow)), *others),
    )  # fmt: skip
    took_ns = np.diff(run.spans(0, Phase.ITERATION)["start_ns"])
    last_slow = int(np.flatnonzero(took_ns > 3 * np.median(took_ns))[-1])
    found = analyse(window(run.trace, last_slow, ITERATIONS), run.reference())
    assert not any("warm-up" in each for each in found.limitations)
