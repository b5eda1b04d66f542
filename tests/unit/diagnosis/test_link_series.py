"""Windows of a link begin with its own messages: what restores a slow stretch must meet the messages that it is of."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import pytest

from e2c_dl.diagnosis.detection.levels import levelled
from e2c_dl.diagnosis.detection.links.series import link_series
from e2c_dl.diagnosis.detection.series import Judged
from e2c_dl.diagnosis.detection.windows import Windows
from e2c_dl.diagnosis.links import Designed, ObservedLink
from e2c_dl.diagnosis.piecewise import Piecewise
from e2c_dl.diagnosis.stretches import When
from e2c_dl.ethernet import wire_bits_of
from e2c_dl.trace.messages import MESSAGE

COUNT, RATE_BPS, NBYTES = 20, 10e6, 100_000


@pytest.mark.parametrize("ahead_s", [-0.1, 0.0, 0.1])
def test_a_sender_that_is_ahead_or_behind_has_windows_of_its_own(ahead_s: float) -> None:
    rows = np.zeros(COUNT, dtype=MESSAGE)
    sent_s = 1.0 + np.arange(COUNT) - ahead_s
    rows["nbytes"], rows["iteration"] = NBYTES, np.arange(COUNT)
    rows["send_start_ns"] = sent_s * 1e9
    rows["recv_end_ns"] = rows["send_start_ns"] + np.int64(wire_bits_of(rows["nbytes"]) / RATE_BPS * 1e9)
    designed = Designed(own=Piecewise.constant(RATE_BPS), delay_s=Piecewise.constant(0.0))
    link = ObservedLink(src="a", dst="b", rows=rows, designed=designed, began_ns=0, uncertainty_ns=0, first_iteration=2)
    found = link_series(link, Windows(begins_s=1.0 + np.arange(COUNT), until_s=COUNT + 1.0))
    assert found is not None
    assert found.series.begins_s == pytest.approx(sent_s[found.series.iterations])


@pytest.mark.parametrize(("small", "seen"), [(True, True), (False, False)])
def test_a_delay_that_meets_small_messages_alone_is_seen_where_their_windows_count(small: bool, seen: bool) -> None:
    rows = np.zeros(COUNT, dtype=MESSAGE)
    late = np.arange(COUNT) % 4 == 3
    rows["nbytes"], rows["iteration"] = np.where(np.arange(COUNT) % 4 == 0, NBYTES, 54), np.arange(COUNT)
    rows["send_start_ns"] = (1.0 + np.arange(COUNT)) * 1e9
    took_ns = wire_bits_of(rows["nbytes"]) / RATE_BPS * 1e9 + late * 80e6
    rows["recv_end_ns"] = rows["send_start_ns"] + took_ns.astype(np.int64)
    designed = Designed(own=Piecewise.constant(RATE_BPS), delay_s=Piecewise.constant(0.0))
    link = ObservedLink(src="a", dst="b", rows=rows, designed=designed, began_ns=0, uncertainty_ns=0, first_iteration=2)
    found = link_series(link, Windows(begins_s=1.0 + np.arange(COUNT), until_s=COUNT + 1.0), small=small)
    assert found is not None
    assert bool((found.series.values > 0.5).any()) is seen


@pytest.mark.parametrize("known", [True, False])
def test_what_is_uneven_though_its_design_is_not_departs(known: bool) -> None:
    """Every other message is late, by more or less: no level that noise of neighbours tells from chance."""
    rows = np.zeros(COUNT, dtype=MESSAGE)
    rows["nbytes"], rows["iteration"] = NBYTES, np.arange(COUNT)
    rows["send_start_ns"] = (1.0 + np.arange(COUNT)) * 1e9
    designed_ns = wire_bits_of(rows["nbytes"]) / RATE_BPS * 1e9
    late = np.where(np.arange(COUNT) % 2, 0.0, np.random.default_rng(2).uniform(0.5, 6.0, COUNT))
    rows["recv_end_ns"] = rows["send_start_ns"] + (designed_ns * (1 + late)).astype(np.int64)
    designed = Designed(own=Piecewise.constant(RATE_BPS), delay_s=Piecewise.constant(0.0), jitter_s=0.001)
    link = ObservedLink(src="a", dst="b", rows=rows, designed=designed, began_ns=0, uncertainty_ns=0, first_iteration=2)
    windows = Windows(begins_s=1.0 + np.arange(COUNT), until_s=COUNT + 1.0)
    found = link_series(link, windows, would_ns=designed_ns if known else None)
    assert found is not None
    (one,) = levelled([found.series])
    departs = one.judged(0.0).windows
    assert (departs == (late > 0)[-len(departs) :]).all() == known
    if known:
        assert one.noise == pytest.approx(0.001 / (designed_ns[0] / 1e9), rel=0.01)
        assert found.judged.all(), "those of the warm-up, too"


def judged_of(slow: Sequence[int], small: Sequence[int]) -> Judged:
    """Of a link whose messages took five times as long in windows ``slow``, and next to nothing in ``small``."""
    place = np.arange(COUNT)
    rows = np.zeros(COUNT, dtype=MESSAGE)
    rows["nbytes"], rows["iteration"] = np.where(np.isin(place, small), 54, NBYTES), place
    rows["send_start_ns"] = (1.0 + place) * 1e9
    took_ns = wire_bits_of(rows["nbytes"]) / RATE_BPS * 1e9 * np.where(np.isin(place, slow), 5.0, 1.0)
    rows["recv_end_ns"] = rows["send_start_ns"] + took_ns.astype(np.int64)
    designed = Designed(own=Piecewise.constant(RATE_BPS), delay_s=Piecewise.constant(0.0))
    link = ObservedLink(src="a", dst="b", rows=rows, designed=designed, began_ns=0, uncertainty_ns=0, first_iteration=2)
    found = link_series(link, Windows(begins_s=1.0 + place, until_s=COUNT + 1.0), small=True)
    assert found is not None
    (series,) = levelled([found.series])
    return series.judged(0.0)


SLOW, BETWEEN = (10, 11, 14, 15), (12, 13, 16, 17, 18, 19)


@pytest.mark.parametrize(("small", "since"), [(BETWEEN, True), ((), False)])
def test_what_tells_no_rate_between_slow_windows_is_part_of_their_stretch(small: Sequence[int], since: bool) -> None:
    judged = judged_of(SLOW, small)
    assert judged.slowdown == pytest.approx(5.0, rel=0.01), "small messages say nothing of it"
    assert (judged.stretches.when is When.SINCE) is since
    assert judged.scale().at(np.array([13.5, 20.5])) == pytest.approx([0.2, 0.2] if since else [1.0, 1.0], rel=0.01)


def test_what_tells_no_rate_before_slow_windows_is_restored_with_them_though_when_it_began_is_not_known() -> None:
    judged = judged_of(range(10, COUNT), range(10))
    assert judged.stretches.when is When.SINCE
    assert judged.scale().at(np.array([3.5, 12.5])) == pytest.approx([0.2, 0.2], rel=0.01)
    assert judged.during().at(np.array([3.5, 12.5])).tolist() == [1.0, 1.0]


@pytest.mark.parametrize("exact", [True, False])
def test_messages_that_come_at_once_behind_one_that_was_held_up_share_what_it_took(exact: bool) -> None:
    """Of a modelled world alone: on others a link may be faster than it was asked to be."""
    place = np.arange(COUNT)
    rows = np.zeros(COUNT, dtype=MESSAGE)
    rows["nbytes"], rows["iteration"] = NBYTES, place
    designed_ns = wire_bits_of(rows["nbytes"]) / RATE_BPS * 1e9
    rows["send_start_ns"] = (1.0 + 0.1 * place) * 1e9
    rows["recv_end_ns"] = rows["send_start_ns"] + (designed_ns * np.where(place % 4 == 2, 2.6, 1.0)).astype(np.int64)
    rows["recv_end_ns"] = np.maximum.accumulate(rows["recv_end_ns"])
    designed = Designed(own=Piecewise.constant(RATE_BPS), delay_s=Piecewise.constant(0.0))
    link = ObservedLink(src="a", dst="b", rows=rows, designed=designed, began_ns=0, uncertainty_ns=0, first_iteration=2)
    found = link_series(link, Windows(begins_s=1.0 + 0.1 * place, until_s=3.1), small=True, exact=exact)
    assert found is not None
    assert bool((found.series.values < -0.8).any()) is not exact
    assert found.series.spent_s.sum() == pytest.approx(link.services_ns[link.first_iteration :].sum() / 1e9, rel=0.2)
