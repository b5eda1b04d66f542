"""What the bytes of a library's link needed, as far as the sender's sockets tell."""

from __future__ import annotations

import numpy as np

from e2c_dl.diagnosis.flows import ObservedFlow


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
        assert flow.carrying_bps == 8e6
