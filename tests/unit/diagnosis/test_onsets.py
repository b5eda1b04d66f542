"""When a link began to depart: when it took the message that shows it, in the iteration that its source was in then."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
import virtual_world as vw

from e2c_dl.diagnosis.detection.levels import levelled
from e2c_dl.diagnosis.detection.links.judged import JudgedLink
from e2c_dl.diagnosis.detection.links.series import link_series
from e2c_dl.diagnosis.detection.windows import Windows
from e2c_dl.diagnosis.links import Designed, ObservedLink
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
EVERY = np.arange(COUNT)
SLOW = slice(8, 12)  # messages


def carried() -> ObservedLink:
    """Each message waits until WAIT others have left: it is given to the link that many iterations ahead."""
    rows = np.zeros(COUNT, dtype=MESSAGE)
    took_s = np.full(COUNT, TOOK_S)
    took_s[SLOW] *= 3
    ends_s = WAIT + np.cumsum(took_s)
    rows["nbytes"], rows["iteration"] = NBYTES, EVERY
    rows["recv_end_ns"] = np.rint(ends_s * 1e9)
    rows["send_start_ns"] = rows["posted_ns"] = np.rint(np.append(np.arange(WAIT), ends_s[:-WAIT]) * 1e9)
    designed = Designed(own=Piecewise.constant(RATE_BPS), delay_s=Piecewise.constant(0.0))
    return ObservedLink(src="a", dst="b", rows=rows, designed=designed, began_ns=0, uncertainty_ns=0, first_iteration=2)


@pytest.mark.parametrize("own_pace", [False, True])
def test_what_waited_in_a_queue_tells_of_when_the_link_took_it(own_pace: bool) -> None:
    link = carried()
    sent_s, served_s = link.rows["send_start_ns"] / 1e9, (link.left_ns - link.services_ns) / 1e9
    until_s = float(sent_s[-1]) + 1.0  # the queue goes on for longer
    windows = Windows(begins_s=sent_s, until_s=until_s)
    if own_pace:
        windows = replace(windows, ended_s={"a": np.append(sent_s[1:], until_s)})
    of = link_series(link, windows)
    assert of is not None
    (one,) = levelled([of.series])
    when = JudgedLink(of=of, judged=one.judged(0.0)).stretches
    assert when.when is When.ONCE
    assert when.begins_s == pytest.approx([served_s[SLOW.start]])
    assert when.ends_s == pytest.approx([served_s[SLOW.stop]])
    assert when.onset_iteration == np.searchsorted(sent_s, served_s[SLOW.start], side="right") - 1
    assert when.onset_iteration > SLOW.start + 3


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
