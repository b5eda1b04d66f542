"""On machines a link whose windows open at first, and whose rate falls once, does not lose segments."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
from test_judged_links import RATE_BPS, carried, design

from e2c_dl.diagnosis.detection.links.explained import without_explained
from e2c_dl.diagnosis.detection.links.judged import judged_links
from e2c_dl.diagnosis.detection.links.kinds_simulated import kind_told
from e2c_dl.diagnosis.detection.links.tcp_simulated import AsDesigned
from e2c_dl.diagnosis.detection.windows import Windows
from e2c_dl.diagnosis.model import Part
from e2c_dl.ethernet import wire_bits_of
from e2c_dl.trace.messages import MESSAGE

SIZES = (100_000, 60_000, 80_000)  # bytes, of each iteration
COUNT, EACH = 60, len(SIZES)  # iterations of a second, messages of each
OPENING = np.repeat([2.6, 1.3, 2.4, 2.9, 1.1, 2.2, 1.9, 1.2, 1.6, 1.5, 1.2, 1.4], 2)  # times longer, by less and less
SLOW = (30, 34)


def told(slow: np.ndarray) -> tuple[Part, float, float]:
    """What is told of a link that takes so many times as long in SLOW, and opens its windows from iteration 4 on."""
    times = np.ones(COUNT * EACH)
    times[4 * EACH :][: len(OPENING)] = OPENING
    times[SLOW[0] * EACH : SLOW[1] * EACH] = slow
    rows = np.zeros(len(times), dtype=MESSAGE)
    rows["nbytes"], rows["iteration"] = np.tile(SIZES, COUNT), np.repeat(np.arange(COUNT), EACH)
    rows["send_start_ns"] = rows["posted_ns"] = rows["iteration"] * 1e9 + np.tile(np.arange(EACH), COUNT) * 0.3e9
    took_ns = times * wire_bits_of(rows["nbytes"]) / RATE_BPS * 1e9
    rows["recv_end_ns"] = rows["send_start_ns"] + np.rint(took_ns).astype(np.int64)
    link = replace(carried(("a", "b"), np.arange(1), np.zeros(1, dtype=bool)), rows=rows)
    made = design()
    made = replace(made, reference=replace(made.reference, modelled=False), seconds=float(COUNT), judged_s=float(COUNT))
    as_designed = AsDesigned((link,), made)
    windows = Windows(begins_s=np.arange(COUNT, dtype=np.float64), until_s=float(COUNT))
    ((one,), _) = judged_links((link,), windows, made, as_designed)
    assert one.departs and one.stretches.onset_s < SLOW[0], "both are late"
    kept = without_explained(one, as_designed)
    return kind_told(kept, as_designed).part, kept.stretches.onset_s, kept.judged.slowdown


def test_what_is_late_by_most_of_it_all_evenly_is_a_rate_and_the_rest_is_not_of_it() -> None:
    part, onset_s, slowdown = told(np.tile([4.4, 4.5, 4.45], SLOW[1] - SLOW[0]))
    assert (part, onset_s) == (Part.RATE, SLOW[0])
    assert slowdown == pytest.approx(4.45, rel=0.1)


def test_what_is_uneven_everywhere_is_lost() -> None:
    part, onset_s, _ = told(np.tile([1.2, 7.0, 4.1], SLOW[1] - SLOW[0]))
    assert part is Part.LOSS and onset_s < SLOW[0]
