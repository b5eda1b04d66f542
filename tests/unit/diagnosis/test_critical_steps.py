"""The critical path as times on hosts and links: one after another, from the run's beginning to its end."""

from __future__ import annotations

import numpy as np
import pytest
from synthetic import Ring, simulate

from e2c_dl.diagnosis.observed import observe
from e2c_dl.diagnosis.replay.critical import CriticalSteps
from e2c_dl.diagnosis.shown.activity import from_trace
from e2c_dl.report.page.packed import unpacked
from e2c_dl.report.page.timeline import timeline
from e2c_dl.topology import Link

LINK = Link(rate_bps=40e6, delay_s=0.002)


def steps(ring: Ring) -> tuple[CriticalSteps, float]:
    """The path of ``ring``'s run, and how long that took."""
    replay = observe(simulate(ring), ring.reference()).replay
    return replay.critical.steps(), replay.measured_ns / 1e9


def seconds_on(path: CriticalSteps) -> dict[str, float]:
    spent = np.bincount(path.element, weights=path.end_s - path.begin_s, minlength=len(path.elements))
    return {str(element): float(own) for element, own in zip(path.elements, spent, strict=True)}


@pytest.mark.parametrize("noise", [0.0, 0.1])
def test_steps_follow_each_other_and_fill_the_run(noise: float) -> None:
    path, run_s = steps(
        Ring(compute_s=(0.05, 0.06, 0.05), links=(LINK,) * 3, bucket_bytes=(100_000, 60_000), compute_noise=noise)
    )
    assert (path.end_s > path.begin_s).all()
    assert (path.begin_s[1:] >= path.end_s[:-1] - 1e-9).all()
    assert path.begin_s[0] >= 0
    assert path.end_s[-1] <= run_s + 1e-9
    assert sum(seconds_on(path).values()) == pytest.approx(run_s, rel=0.02)  # nothing wakes up late here


def test_the_path_lies_where_the_time_goes() -> None:
    slow = Ring(
        compute_s=(0.05,) * 3, links=(LINK,) * 3, bucket_bytes=(200_000,), slow_hosts={1: 4.0}, slow_links={2: 0.1}
    )
    path, run_s = steps(slow)
    spent = seconds_on(path)
    assert sorted(spent, key=lambda name: -spent[name])[:2] == ["edge-3 -> edge-1", "edge-2"]
    assert spent["edge-3 -> edge-1"] > 0.5 * run_s


def test_the_page_draws_it_on_the_rows_that_there_are() -> None:
    ring = Ring(compute_s=(0.05,) * 3, links=(LINK,) * 3, bucket_bytes=(100_000,))
    observed = observe(simulate(ring), ring.reference())
    path = observed.replay.critical.steps()
    drawn = timeline(from_trace(observed.trace, observed.messages), critical=path)
    facts, columns = unpacked(drawn.content.partition(">")[2].partition("<")[0])
    names = [*(lane["name"] for lane in facts["lanes"]), *(link["name"].replace("→", "->") for link in facts["links"])]
    assert [names[row] for row in columns["c_row"]] == [str(path.elements[place]) for place in path.element]
    assert np.cumsum(columns["c_start"]) * facts["tick_s"] == pytest.approx(path.begin_s, abs=1e-6)
