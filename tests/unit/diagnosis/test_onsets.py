"""When a link began to depart: when it took the message that shows it, in the iteration that its source was in then."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
import virtual_world as vw

from e2c_dl.diagnosis.detection.levels import levelled
from e2c_dl.diagnosis.detection.links.judged import JudgedLink
from e2c_dl.diagnosis.detection.links.kinds import Kind
from e2c_dl.diagnosis.detection.links.series import link_series
from e2c_dl.diagnosis.detection.links.told_when import told_when
from e2c_dl.diagnosis.detection.windows import Windows
from e2c_dl.diagnosis.links import Designed, ObservedLink
from e2c_dl.diagnosis.model import Part
from e2c_dl.diagnosis.observed import Observed, observe
from e2c_dl.diagnosis.piecewise import Piecewise
from e2c_dl.diagnosis.stretches import Stretches, When
from e2c_dl.ethernet import wire_bits_of
from e2c_dl.scenario.model import Tcp
from e2c_dl.strategies.ako import Ako
from e2c_dl.trace.messages import MESSAGE
from e2c_dl.worlds.virtual import LinkModel

COUNT, NBYTES, TOOK_S, WAIT = 20, 100_000, 0.9, 5
RATE_BPS = float(wire_bits_of(np.array([NBYTES]))[0]) / TOOK_S
SLOW = slice(8, 12)  # messages


def carried(took_s: np.ndarray) -> ObservedLink:
    """Each message waits until WAIT others have left: it is given to the link that many iterations ahead."""
    rows = np.zeros(len(took_s), dtype=MESSAGE)
    ends_s = np.cumsum(took_s)
    rows["nbytes"], rows["iteration"] = NBYTES, np.arange(len(took_s))
    rows["recv_end_ns"] = np.rint(ends_s * 1e9)
    rows["send_start_ns"] = rows["posted_ns"] = np.rint(np.append(0.01 * np.arange(WAIT), ends_s[:-WAIT]) * 1e9)
    designed = Designed(own=Piecewise.constant(RATE_BPS), delay_s=Piecewise.constant(0.0))
    return ObservedLink(src="a", dst="b", rows=rows, designed=designed, began_ns=0, uncertainty_ns=0, first_iteration=2)


def judged(link: ObservedLink, *, own_pace: bool = False) -> JudgedLink:
    sent_s = link.rows["send_start_ns"] / 1e9
    until_s = float(sent_s[-1]) + 1.0  # the queue goes on for longer
    windows = Windows(begins_s=sent_s, until_s=until_s)
    if own_pace:
        windows = replace(windows, ended_s={"a": np.append(sent_s[1:], until_s)})
    of = link_series(link, windows)
    assert of is not None
    (one,) = levelled([of.series])
    return JudgedLink(of=of, judged=one.judged(0.0))


@pytest.mark.parametrize("own_pace", [False, True])
def test_what_waited_in_a_queue_tells_of_when_the_link_took_it(own_pace: bool) -> None:
    took_s = np.full(COUNT, TOOK_S)
    took_s[SLOW] *= 3
    link = carried(took_s)
    sent_s, served_s = link.rows["send_start_ns"] / 1e9, (link.left_ns - link.services_ns) / 1e9
    when = judged(link, own_pace=own_pace).stretches
    assert when.when is When.ONCE
    assert when.begins_s == pytest.approx([served_s[SLOW.start]])
    assert when.ends_s == pytest.approx([served_s[SLOW.stop]])
    assert when.onset_iteration == np.searchsorted(sent_s, served_s[SLOW.start], side="right") - 1
    assert when.onset_iteration > SLOW.start + 3


@pytest.mark.parametrize("between", [False, True])
def test_what_recurs_did_so_in_the_warm_up_if_messages_are_as_late_there_at_its_period(between: bool) -> None:
    took_s = np.full(4 * COUNT, TOOK_S)
    for first in range(1, len(took_s), COUNT):
        took_s[first : first + 6] *= 3  # the first window that is judged is normal, but for what waits
    if between:
        took_s[12:14] *= 3  # as windows that have to open make them
    link, kind = carried(took_s), Kind(part=Part.RATE)
    each = judged(link)
    later = np.array([start >= COUNT - WAIT for start, _ in each.judged.levelled.found])
    each = replace(each, judged=each.judged.only(each.judged.departs & later))
    assert each.stretches.when is When.PERIODIC
    designed_ns = np.full(len(took_s), TOOK_S * 1e9)
    when = told_when(each, kind, designed_ns)
    assert len(when.begins_s) == len(each.stretches.begins_s) + 1
    assert when.onset_s == pytest.approx(TOOK_S)
    by_windows = told_when(each, kind, took_s * 1e9)  # the late ones of the warm-up are as designed
    assert by_windows == each.stretches


@pytest.mark.parametrize(
    ("times", "until", "begins"),
    [(1.2, SLOW.stop, SLOW.start), (2.0, SLOW.stop, 2), (1.8, SLOW.stop, 2), (1.8, 4 * COUNT, SLOW.start)],
    ids=["little", "half", "two fifths, of little", "two fifths, of much"],
)
def test_on_machines_what_is_little_beside_the_rest_is_no_beginning(times: float, until: int, begins: int) -> None:
    took_s = np.full(max(COUNT, until), TOOK_S)
    took_s[2:4] *= times  # TCP's window opens
    took_s[SLOW.start : until] *= 3
    each = judged(carried(took_s))
    assert len(each.stretches.begins_s) == 2
    served_s = np.cumsum(took_s) - took_s
    assert told_when(each, Kind(part=Part.RATE), None) == each.stretches, "of a modelled world"
    assert told_when(each, Kind(part=Part.RATE), None, measured=True).onset_s == pytest.approx(served_s[begins])


def test_a_late_message_amid_what_recurs_hides_none_of_it() -> None:
    took_s = np.full(60, TOOK_S)
    for first in (5, 13, 30, 37, 50):
        took_s[first : first + 4] *= 1.6
    took_s[24:26] *= 8  # as a busy reader does
    each = judged(carried(took_s))
    assert told_when(each, Kind(part=Part.RATE), None, measured=True) == each.stretches


def test_losses_begin_with_the_first_late_message_though_no_window_shows_it() -> None:
    took_s = np.full(COUNT, TOOK_S)
    took_s[SLOW.start :] *= 3
    took_s[5] *= 1.05
    each, designed_ns = judged(carried(took_s)), np.full(COUNT, TOOK_S * 1e9)
    assert each.stretches.when is When.SINCE
    served_s = np.cumsum(took_s) - took_s
    assert told_when(each, Kind(part=Part.LOSS), designed_ns).onset_s == pytest.approx(served_s[5])
    assert told_when(each, Kind(part=Part.RATE), designed_ns).onset_s == pytest.approx(served_s[SLOW.start])


def test_losses_by_turns_begin_where_the_first_of_them_do_though_windows_grow_in_between() -> None:
    took_s = np.full(64, TOOK_S)
    for first in range(8, len(took_s), 8):
        took_s[first : first + 3] *= 9
        took_s[first + 3 : first + 8] *= 1.6  # they have been halved
    took_s[4:8] *= 1.6  # and are not open yet
    each = judged(carried(took_s))
    served_s = np.cumsum(took_s) - took_s
    assert each.stretches.onset_s < served_s[8] and len(each.stretches.begins_s) == 1
    when = told_when(each, Kind(part=Part.LOSS), None, measured=True)
    assert (when.when, when.onset_s) == (When.PERIODIC, pytest.approx(served_s[8]))
    assert len(told_when(each, Kind(part=Part.RATE), None, measured=True).begins_s) == 1


@pytest.mark.parametrize(("before", "begins"), [((1.12, 1.06), 8), ((1.12, 1.4), 7), ((1.4, 1.4), 8), ((2.0, 2.0), 6)])
def test_what_is_little_right_before_the_rest_is_no_beginning_either(before: tuple[float, float], begins: int) -> None:
    took_s = np.full(COUNT, TOOK_S)
    took_s[6:8] *= before  # TCP's window opens; or the rate falls amid the second of them
    took_s[SLOW] *= 5
    each = judged(carried(took_s))
    served_s = np.cumsum(took_s) - took_s
    assert each.stretches.onset_s == pytest.approx(served_s[6])
    for part, first in ((Part.RATE, begins), (Part.LOSS, 6)):
        assert told_when(each, Kind(part=part), None, measured=True).onset_s == pytest.approx(served_s[first])


def test_what_is_late_all_the_time_begins_at_once_and_what_lasts_lasts() -> None:
    served_s = np.cumsum(np.full(COUNT, TOOK_S)) - TOOK_S
    always, lasts = np.full(COUNT, TOOK_S), np.full(COUNT, TOOK_S)
    always[:6] *= 1.6
    always[6:] *= 5
    lasts[COUNT // 2 :] *= 3
    lasts[-3:] *= 1.4 / 3
    assert told_when(judged(carried(always)), Kind(part=Part.RATE), None, measured=True).when is When.PERSISTENT
    when = told_when(judged(carried(lasts)), Kind(part=Part.RATE), None, measured=True)
    assert (when.when, when.onset_s) == (When.SINCE, pytest.approx(served_s[COUNT // 2]))


TCP = Tcp(congestion_control="cubic", slow_start_after_idle=False)
WIDE = LinkModel(rate_bps=165e6, delay_s=0.016, tcp=TCP)  # its windows open for eight iterations


def departs(designed: LinkModel, *steps: tuple[float, LinkModel], nbytes: int = 154_000) -> Stretches:
    """When the link from rank 0 to rank 1 is said to depart, which is as ``steps`` have it."""
    links = vw.everywhere(3, designed)
    changing = replace(designed, conditions=lambda: iter([(0.0, designed), *steps]))
    run = vw.run(
        Ako, size=3, seed=1, links={**links, (0, 1): changing},
        on_hosts=vw.hosts(3, of=vw.profile((nbytes,))), iterations=40,
    )  # fmt: skip
    observed: Observed = observe(run.trace, replace(replace(run, links=links).reference(), tcp=TCP, modelled=True))
    (departure,) = observed.links.departures
    assert str(departure.element) == "edge-1 -> edge-2"
    return departure.when


def test_windows_that_open_are_no_part_of_what_begins_later() -> None:
    when = departs(WIDE, (0.3, replace(WIDE, rate_bps=WIDE.rate_bps / 4)))
    assert when.when is When.SINCE
    assert when.onset_s == pytest.approx(0.3, abs=0.01)
