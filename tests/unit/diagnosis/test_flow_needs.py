"""What the bytes of a library's link needed, as far as the sender's sockets tell."""

from __future__ import annotations

import numpy as np

from e2c_dl.diagnosis.design import Design
from e2c_dl.diagnosis.detection.links.flows import flow_departures
from e2c_dl.diagnosis.detection.windows import Windows
from e2c_dl.diagnosis.flows import ObservedFlow
from e2c_dl.diagnosis.references import Reference
from e2c_dl.ethernet import wire_bits_of
from e2c_dl.topology import Topology


def test_an_iteration_of_which_no_rate_was_told_counts_for_none() -> None:
    known, iterations = 3, 12  # a link that is seldom used has no usual need
    acked = np.zeros(iterations)
    acked[2 : 2 + known] = 1e6
    rates = np.full(iterations, np.nan)
    rates[3 : 2 + known] = 8e6
    blank = np.zeros(iterations)
    flow = ObservedFlow(
        ranks=(0, 1), pair=("a", "b"), acked_bytes=acked, busy_s=(acked > 0) * 0.5, delivery_bps=rates,
        min_rtt_s=rates, retransmissions=blank, segments=blank,
    )  # fmt: skip
    assert not flow.is_usual
    with np.errstate(all="raise"):
        assert flow.carrying_bps == wire_bits_of(np.array([1_000_000]))[0]  # of frames, as links are asked for


def test_a_way_that_is_long_is_named_once_whichever_way_its_data_goes() -> None:
    def flow(src: str, dst: str, trip_s: float, nbytes: float = 1e6) -> ObservedFlow:
        each = np.ones(12)
        return ObservedFlow(
            ranks=(0, 1), pair=(src, dst), acked_bytes=nbytes * each, busy_s=0.5 * each, delivery_bps=16e6 * each,
            min_rtt_s=trip_s * each, retransmissions=0 * each, segments=700 * each,
        )  # fmt: skip

    near = [flow(src, dst, 0.001) for src, dst in (("a", "c"), ("c", "a"), ("b", "c"), ("c", "b"))]
    flows = [flow("a", "b", 0.06), flow("b", "a", 0.06, 2e6), *near]
    windows = Windows(begins_s=np.arange(12.0), until_s=12.0)
    none = Topology(hosts=(), links={})
    reference = Reference(topology=none, compute_factors={}, batch_sizes={}, network_emulated=False)
    design = Design(reference=reference, began_ns=0, seconds=12.0, judged_s=12.0)
    (found,) = flow_departures(flows, windows, design).departures
    assert str(found.element) == "links between b and a"
    assert {change.element for change in found.restored.changes} == {flows[0].element, flows[1].element}
    assert {*found.members} == {flows[0].element, flows[1].element}
