"""A rate that drifts or steps makes messages uneven, as losses do: but not beside those that it carried with them."""

from __future__ import annotations

import numpy as np
import pytest

from e2c_dl.diagnosis.design import Design
from e2c_dl.diagnosis.detection.links.judged import judged_links
from e2c_dl.diagnosis.detection.links.kinds_simulated import kind_told
from e2c_dl.diagnosis.detection.links.tcp_simulated import AsDesigned
from e2c_dl.diagnosis.detection.windows import Windows
from e2c_dl.diagnosis.links import Designed, ObservedLink
from e2c_dl.diagnosis.model import Part
from e2c_dl.diagnosis.piecewise import Piecewise
from e2c_dl.diagnosis.references import Reference
from e2c_dl.ethernet import wire_bits_of
from e2c_dl.topology import Host, Topology
from e2c_dl.trace.messages import MESSAGE

ITERATIONS, EACH, RATE_BPS, DELAY_S, NBYTES = 32, 6, 20e6, 0.005, 100_000
COUNT = ITERATIONS * EACH
PLACES = np.arange(COUNT)


def part_of(slower: np.ndarray, *, busy: bool = False) -> Part:
    """What is said of a link of a live run whose messages take so many times longer than designed.

    ``busy``: each stands behind the one before it, and is an iteration's.
    """
    rows, each = np.zeros(COUNT, dtype=MESSAGE), 1 if busy else EACH
    rows["nbytes"], rows["iteration"] = NBYTES, PLACES // each
    service_s = wire_bits_of(rows["nbytes"]) / RATE_BPS
    apart_s = service_s if busy else np.ones(COUNT)
    rows["send_start_ns"] = rows["posted_ns"] = np.rint(PLACES * apart_s * 1e9).astype(np.int64)
    arrived_s = np.cumsum(slower * service_s) if busy else PLACES + slower * service_s
    rows["recv_end_ns"] = np.rint((DELAY_S + arrived_s) * 1e9).astype(np.int64)
    seconds = float(COUNT * apart_s[0])
    designed = Designed(own=Piecewise.constant(RATE_BPS), delay_s=Piecewise.constant(DELAY_S))
    link = ObservedLink(
        src="a", dst="b", rows=rows, designed=designed, began_ns=0, uncertainty_ns=0, first_iteration=2
    )  # fmt: skip
    hosts = tuple(
        Host(name=name, layer="edge", service="Trainer", service_id=f"1_1_{rank}", role="", rank=rank)
        for rank, name in enumerate("ab")
    )
    reference = Reference(topology=Topology(hosts=hosts), compute_factors={}, batch_sizes={})
    design = Design(reference=reference, began_ns=0, seconds=seconds, judged_s=seconds)
    windows = Windows(begins_s=np.arange(0, COUNT, each) * apart_s[0], until_s=seconds)
    as_designed = AsDesigned([link], design)
    ((judged,), _) = judged_links([link], windows, design, as_designed)
    assert judged.departs
    return kind_told(judged, as_designed).part


DRAWN = np.random.default_rng(1)
CHANGING = {
    "drifts": np.linspace(1.0, 4.0, COUNT),
    "recovers": np.linspace(4.0, 1.0, COUNT),
    "drifts from half on": np.maximum(1.0, np.linspace(-3.0, 5.0, COUNT)),
    "steps": np.array([1.0, 1.5, 2.5, 4.0])[PLACES // (COUNT // 4)],
}


@pytest.mark.parametrize("how", CHANGING)
def test_a_rate_that_changes_is_no_loss(how: str) -> None:
    noise = DRAWN.normal(0, 0.005, COUNT)
    assert part_of(CHANGING[how] * np.exp(noise)) is Part.RATE


@pytest.mark.parametrize("spread", [0.2, 0.4])
@pytest.mark.parametrize("how", ["even", *CHANGING])
def test_messages_that_are_as_uneven_beside_their_neighbours_are_why_losses_are_told(how: str, spread: float) -> None:
    level = CHANGING.get(how, np.full(COUNT, 2.0))
    assert part_of(np.maximum(1.0, level * np.exp(DRAWN.normal(0, spread, COUNT)))) is not Part.RATE


def test_messages_that_are_even_unevenly_are_why_losses_are_told() -> None:
    assert part_of(2.0 * np.exp(DRAWN.normal(0, 0.3, COUNT))) is Part.LOSS


@pytest.mark.parametrize(("given_back", "part"), [(0.6, Part.RATE_OR_DELAY), (0.0, Part.RATE)])
def test_what_is_given_back_at_once_may_be_a_delay_that_comes_and_goes_within_messages(
    given_back: float, part: Part
) -> None:
    slower = np.ones(COUNT)
    slower[12::6] += 0.6
    slower[14::6] -= given_back
    assert part_of(slower, busy=True) is part
