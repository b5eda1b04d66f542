"""A host that becomes slow, or fast again, amid a gradient: the pieces that were slow count to its stretch."""

from __future__ import annotations

from dataclasses import replace

import pytest
import virtual_world as vw

from e2c_dl.diagnosis.analyse import analyse
from e2c_dl.diagnosis.model import Report
from e2c_dl.scenario.schedule import Schedule
from e2c_dl.strategies.allreduce import Allreduce
from e2c_dl.trace.model import GRADIENT, Phase
from e2c_dl.worlds.virtual import LinkModel

SIZE, FACTOR, ITERATIONS, ONSET = 4, 2.0, 36, 14
LINKS = vw.everywhere(SIZE, LinkModel(rate_bps=1e9, delay_s=0.001))


def ran(slower: Schedule | None, noise: float = 0.1, samples: int = 64) -> vw.Run:
    hosts = list(vw.hosts(SIZE, of=vw.profile((1000, 800, 600), per_sample_s=0.01), noise=noise, samples=samples))
    if slower is not None:
        hosts[2] = replace(hosts[2], slower=dict.fromkeys(GRADIENT, slower))
    return vw.run(Allreduce, size=SIZE, links=LINKS, seed=5, iterations=ITERATIONS, on_hosts=hosts)


def told(run: vw.Run) -> Report:
    return analyse(run.trace, run.reference())


def began_s(run: vw.Run, phase: Phase, bucket: int) -> float:
    """When the slow host began that piece of its gradient of iteration ONSET, in seconds of training."""
    spans = run.spans(2, phase)
    (span,) = spans[(spans["iteration"] == ONSET) & (spans["bucket"] == bucket)]
    return float(span["start_ns"]) / 1e9


def slow(undisturbed: vw.Run, bucket: int, length_s: float) -> Schedule:
    """From just before the backward pass of ``bucket`` on."""
    begin_s = began_s(undisturbed, Phase.BACKWARD, bucket) - 0.001
    return Schedule(points=((0.0, 1.0), (begin_s, FACTOR), (begin_s + length_s, 1.0)))


def test_a_stretch_begins_with_the_bucket_that_it_met() -> None:
    undisturbed = ran(None)
    run = ran(slow(undisturbed, 2, length_s=1e9))
    (found,) = told(run).culprits
    assert found.when.onset_iteration == ONSET
    assert found.when.onset_s == pytest.approx(began_s(run, Phase.BACKWARD, 2))


@pytest.mark.parametrize("length_s", [3.4, 4.2, 5.0, 5.8])
def test_what_a_short_stretch_cost_is_told_whole(length_s: float) -> None:
    undisturbed = ran(None)
    run = ran(slow(undisturbed, 1, length_s))
    (found,) = told(run).findings
    cost_s = run.end_s - undisturbed.end_s
    assert found.when.onset_iteration == ONSET
    assert found.saved_s == pytest.approx(cost_s, rel=0.1)


def test_whatever_noise_makes_of_pieces_is_no_edge() -> None:
    undisturbed = ran(None, noise=0.15)
    begin_s = began_s(undisturbed, Phase.FORWARD, -1) - 0.001  # all of its gradient is slow
    run = ran(Schedule(points=((0.0, 1.0), (begin_s, FACTOR))), noise=0.15)
    (found,) = told(run).culprits
    assert found.when.onset_iteration == ONSET
