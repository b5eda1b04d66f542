"""What a machine makes all links take longer, beside a layer most of whose links are slow: two are not that."""

from __future__ import annotations

import numpy as np
import pytest

from e2c_dl.diagnosis.design import Design
from e2c_dl.diagnosis.detection.links.judged import JudgedLink, judged_links
from e2c_dl.diagnosis.detection.links.tcp_simulated import AsDesigned
from e2c_dl.diagnosis.detection.windows import Windows
from e2c_dl.diagnosis.links import Designed, ObservedLink
from e2c_dl.diagnosis.piecewise import Piecewise
from e2c_dl.diagnosis.references import Reference
from e2c_dl.ethernet import wire_bits_of
from e2c_dl.topology import Host, Topology
from e2c_dl.trace.messages import MESSAGE

COUNT, RATE_BPS, LINKS, LARGE = 30, 20e6, 10, 100_000
TAKES_S = float(wire_bits_of(np.array([LARGE]))[0]) / RATE_BPS
NAMES = [f"edge-{place}" for place in range(LINKS)]


def link(place: int, slower: float, later_s: float, nbytes: int = LARGE) -> ObservedLink:
    """From one host to the next, a message a second."""
    rows = np.zeros(COUNT, dtype=MESSAGE)
    rows["nbytes"], rows["iteration"] = nbytes, np.arange(COUNT)
    rows["send_start_ns"] = rows["posted_ns"] = np.arange(COUNT) * 1e9
    took_s = slower * wire_bits_of(rows["nbytes"]) / RATE_BPS + later_s
    rows["recv_end_ns"] = rows["send_start_ns"] + np.rint(took_s * 1e9).astype(np.int64)
    return ObservedLink(
        src=NAMES[place], dst=NAMES[(place + 1) % LINKS], rows=rows, began_ns=0, uncertainty_ns=0, first_iteration=2,
        designed=Designed(own=Piecewise.constant(RATE_BPS)),
    )  # fmt: skip


def judged(links: list[ObservedLink]) -> list[JudgedLink]:
    """On machines, which take longer for all links than was designed."""
    hosts = tuple(
        Host(name=name, layer="edge", service="Trainer", service_id=f"1_1_{rank}", role="", rank=rank)
        for rank, name in enumerate(NAMES)
    )
    reference = Reference(topology=Topology(hosts=hosts), compute_factors={}, batch_sizes={})
    design = Design(reference=reference, began_ns=0, seconds=float(COUNT), judged_s=float(COUNT))
    windows = Windows(begins_s=np.arange(COUNT, dtype=np.float64), until_s=float(COUNT))
    return judged_links(links, windows, design, AsDesigned(links, design))[0]


@pytest.mark.parametrize(("slower", "later_s"), [(3.0, 0.0), (1.0, 0.06), (1.3, 0.0)])
def test_links_are_slow_also_where_all_but_two_are(slower: float, later_s: float) -> None:
    found = judged([link(place, *((slower, later_s) if place < 8 else (1.0, 0.0))) for place in range(LINKS)])
    assert [each.departs for each in found] == [True] * 8 + [False] * 2
    assert found[0].judged.slowdown == pytest.approx(slower + later_s / TAKES_S, rel=0.03)


@pytest.mark.parametrize("later_s", [0.002, 0.02])
def test_no_link_is_slow_where_each_message_of_all_is_as_late(later_s: float) -> None:
    found = judged([link(place, 1.0, later_s, nbytes=LARGE if place < 5 else 4 * LARGE) for place in range(LINKS)])
    assert not any(each.departs for each in found)


def test_a_link_of_large_messages_does_not_tell_that_small_ones_are_late() -> None:
    of_large = link(0, 1.0, 0.001, nbytes=10 * LARGE)
    found = judged([of_large, *(link(place, 1.0, 0.008) for place in range(1, LINKS))])
    assert not any(each.departs for each in found)
