"""What a line that several links share carried, where it was slow: by those of its links that fill it then."""

from __future__ import annotations

import numpy as np
import pytest

from e2c_dl.diagnosis.piecewise import Piecewise
from e2c_dl.diagnosis.replay.whatif import Line
from e2c_dl.diagnosis.resimulation.lines import measured_line
from e2c_dl.ethernet import wire_bits
from e2c_dl.trace.messages import MESSAGE, Messages
from e2c_dl.trace.model import SPAN
from e2c_dl.worlds.virtual.links import SharedRate

NBYTES, PAIRS, OWN_BPS = 2_500_000, ((0, 1), (2, 3)), 25e6
DESIGNED = SharedRate(rate_bps=40e6, links=PAIRS)  # takes both


def carried(line_bps: float, *, apart: float) -> Messages:
    """Pairs of messages through a line of ``line_bps``; one of each has it alone for ``apart`` of its time.

    Then the other begins, they share it, and the other has it alone for as long.
    """
    bits, rows = wire_bits(NBYTES), []
    alone_bps = min(line_bps, OWN_BPS)
    alone_s = apart * bits / alone_bps
    shared_s = (1 - apart) * bits / (line_bps / 2)
    for time in range(4):
        begin_s = time * 10.0
        for (src, dst), late_s in zip(PAIRS, (0.0, alone_s), strict=True):
            row = np.zeros((), dtype=MESSAGE)
            row["nbytes"], row["src"], row["dst"], row["seq"] = NBYTES, src, dst, time
            row["recv_start_ns"] = row["send_start_ns"] = row["posted_ns"] = (begin_s + late_s) * 1e9
            row["recv_end_ns"] = (begin_s + late_s + alone_s + shared_s) * 1e9
            rows.append(row)
    none = np.zeros(0, dtype=SPAN)
    return Messages(joined=np.sort(np.array(rows), order=["src", "dst", "seq"]), unreceived=none, unsent=none)


def measured(messages: Messages, *scales: float) -> float:
    restored = [Line(links=frozenset(), scale=Piecewise.constant(scale)) for scale in scales]
    line = measured_line(DESIGNED, messages, 0, {}, dict.fromkeys(PAIRS, OWN_BPS), restored)
    assert line.rates is not None
    ((_, rate_bps),) = line.rates()
    assert line.rate_bps == DESIGNED.rate_bps, "TCP's trains are as long as they were"
    return rate_bps


@pytest.mark.parametrize("apart", [0.1, 0.5, 0.9])
def test_one_link_fills_a_line_that_is_slower_than_it(apart: float) -> None:
    messages = carried(20e6, apart=apart)
    assert measured(messages, 0.5) == pytest.approx(20e6, rel=0.01)
    assert measured(messages) >= 20e6, "what is not known to be slow takes both to be full"


def test_a_line_that_it_takes_both_to_fill_is_as_slow_as_both_show() -> None:
    found = measured(carried(36e6, apart=0.1), 0.9)
    assert found == pytest.approx(36e6, rel=0.05)


def test_a_line_is_measured_where_what_restores_it_has_it_slow_and_where_not_each_by_itself() -> None:
    slow, well = carried(20e6, apart=0.1).joined, carried(40e6, apart=0.0).joined
    joined = np.where(slow["seq"] < 2, slow, well)
    messages = Messages(joined=joined, unreceived=np.zeros(0, dtype=SPAN), unsent=np.zeros(0, dtype=SPAN))
    scale = Piecewise(starts_s=np.array([0.0, 20.0]), values=np.array([0.5, 1.0]))
    of_one = {PAIRS[0]: [10.0, 10.5]}  # by its own messages alone, of which there are few
    line = measured_line(
        DESIGNED, messages, 0, of_one, dict.fromkeys(PAIRS, OWN_BPS), [Line(links=frozenset(), scale=scale)]
    )
    assert line.rates is not None
    (first_s, slow_bps), (then_s, well_bps) = line.rates()
    assert (first_s, then_s) == (0.0, 20.0)
    assert (slow_bps, well_bps) == (pytest.approx(20e6, rel=0.01), pytest.approx(40e6, rel=0.01))


def test_small_messages_that_come_at_one_moment_fill_no_line() -> None:
    """Both links are slow by themselves, and cannot fill it: what a barrier sends shows no rate."""
    large = carried(20e6, apart=0.0)
    small = large.joined.copy()
    small["nbytes"] = 54
    small["seq"] += 4
    small["recv_start_ns"] = large.joined["recv_end_ns"] - 1_000
    small["recv_end_ns"] = small["recv_start_ns"] + 500
    joined = np.sort(np.concatenate([large.joined, small]), order=["src", "dst", "seq"])
    messages = Messages(joined=joined, unreceived=large.unreceived, unsent=large.unsent)
    line = measured_line(DESIGNED, messages, 0, {}, dict.fromkeys(PAIRS, 15e6), [])
    assert line.rates is not None and [*line.rates()] == [(0.0, DESIGNED.rate_bps)]
