"""One scenario in both worlds: the same messages over the same links, and gradients that are paced alike."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from benchmarks.agreement import bed, cases, virtual
from benchmarks.agreement.figures import Comparison
from e2c_dl.trace.model import Phase, Trace
from e2c_dl.worlds.virtual import ComputeProfile

pytestmark = pytest.mark.local

PROFILE = Path(__file__).parents[2] / "experiments" / "first-light" / "profile.json"


def messages(trace: Trace) -> dict[tuple[int, int], list[int]]:
    """(src, dst) -> bytes of each message, sorted."""
    found: dict[tuple[int, int], list[int]] = {}
    for rank in trace.ranks:
        sent = rank.spans[rank.spans["phase"] == Phase.SEND]
        for src, dst, nbytes in zip(sent["src"], sent["dst"], sent["nbytes"], strict=True):
            found.setdefault((int(src), int(dst)), []).append(int(nbytes))
    return {pair: sorted(sizes) for pair, sizes in found.items()}


def gradients_ns(trace: Trace) -> np.ndarray:
    """How long each gradient of rank 0 took, by iteration."""
    spans = trace.ranks[0].spans
    computed = spans[spans["task"] == -1]
    lengths = [
        np.ptp(np.concatenate([own["start_ns"], own["end_ns"]]))
        for own in (computed[computed["iteration"] == iteration] for iteration in np.unique(computed["iteration"]))
    ]
    return np.array(lengths)


def test_both_worlds_send_the_same_messages_and_compute_by_the_stored_profile(tmp_path: Path) -> None:
    case = replace(cases.CASES[0], iterations=6)
    scenario = cases.write(tmp_path / "s", case, ComputeProfile.from_json(PROFILE.read_text()))
    with bed.deployed(case.network.hosts) as deployment, deployment.emulated(scenario):
        live, busy = deployment.train(scenario)
    simulated = virtual.train(scenario, seed=1)
    assert 0 < busy <= 1
    assert all(rank.complete for rank in (*live.ranks, *simulated.ranks))
    sent, expected = messages(live), messages(simulated)
    assert {pair: len(sizes) for pair, sizes in sent.items()} == {pair: len(each) for pair, each in expected.items()}
    for pair, sizes in sent.items():  # a message that others overtook live has a header for each of its pieces
        assert sizes == pytest.approx(expected[pair], rel=0.01)
    paced_ns = gradients_ns(simulated)
    assert len(set(paced_ns)) == 1
    assert len(gradients_ns(live)) == 6
    assert np.all(gradients_ns(live) >= paced_ns - 1000)  # a live host may be late, never early


def test_an_error_is_signed_and_a_busy_machine_voids() -> None:
    one = Comparison(kind="k", network="n", strategy="s", live_s=0.1, virtual_s=0.095, busy=0.7, compute_s=0.03)
    assert one.error == pytest.approx(-0.05)
    assert one.void
