"""The rate that a link was used at: of messages that support one, and of no others."""

from __future__ import annotations

import math

import numpy as np
import pytest

from e2c_dl import formatting
from e2c_dl.diagnosis.links import Designed, ObservedLink
from e2c_dl.diagnosis.model import LinkSummary
from e2c_dl.ethernet import wire_bits_of
from e2c_dl.report.rows import LinkRow
from e2c_dl.trace.messages import MESSAGE

NBYTES = 60_000
BITS = int(wire_bits_of(np.array([NBYTES]))[0])


def link(took_ns: int, uncertainty_ns: int = 0, nbytes: int = NBYTES, **more: int) -> ObservedLink:
    """Five messages, each of which arrives ``took_ns`` after it left, one every second."""
    rows = np.zeros(5, dtype=MESSAGE)
    rows["send_start_ns"] = np.arange(5) * 10**9
    rows["recv_end_ns"] = rows["send_start_ns"] + took_ns
    rows["nbytes"] = nbytes
    return ObservedLink(
        src="a", dst="b", rows=rows, designed=Designed(), began_ns=0, uncertainty_ns=uncertainty_ns, first_iteration=0,
        **more,
    )  # fmt: skip


def test_messages_that_take_their_time_tell_a_rate() -> None:
    assert link(12_000_000).rate_bps == pytest.approx(BITS / 0.012)


@pytest.mark.parametrize(
    "unsupported",
    [
        link(1_000_000, nbytes=600),
        link(0),
        link(400),
        link(50_000, uncertainty_ns=80_000),
        link(2_000_000, added_delay_ns=3_000_000),
    ],
    ids=[
        "so small that they measure latency",
        "at once",
        "sooner than a clock is read",
        "less than clocks are certain",
        "sooner than the link's delay",
    ],
)
def test_others_support_none_and_it_is_told_as_a_dash(unsupported: ObservedLink) -> None:
    assert math.isnan(unsupported.rate_bps)
    used = LinkSummary(
        src="a", dst="b", messages=5, sent_bytes=1, received_bytes=1, rate_bps=unsupported.rate_bps, transfer_s=0.0
    )
    row = LinkRow(src="a", dst="b", used=used)
    assert (row.known_rate_bps, row.against_design) == (None, None)
    assert formatting.rate(used.rate_bps) == formatting.DASH


def test_one_word_for_a_link_that_is_held_to_no_rate() -> None:
    assert (formatting.limit(None), formatting.limit(40e6)) == ("unlimited", "40.0 Mbit/s")
    used = LinkSummary(src="a", dst="b", messages=1, sent_bytes=1, received_bytes=1, rate_bps=1e6, transfer_s=0.0)
    unshaped, undesigned = (LinkRow(src="a", dst="b", used=used, unshaped=each) for each in (True, False))
    assert (unshaped.designed_rate, unshaped.requested_rate, unshaped.designed) == ("unlimited",) * 3
    assert (undesigned.designed_rate, undesigned.requested_rate) == (
        formatting.DASH,
    ) * 2  # a script's: nobody designed it
