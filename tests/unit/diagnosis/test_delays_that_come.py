"""Messages that no window shows to be late by a delay that comes and goes: the first may decide what is sent next."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
import virtual_world as vw

from e2c_dl.diagnosis.model import Part
from e2c_dl.diagnosis.observed import observe
from e2c_dl.scenario.model import Tcp
from e2c_dl.strategies.allreduce import Allreduce
from e2c_dl.worlds.virtual import LinkModel

ASKED = LinkModel(rate_bps=50e6, delay_s=0.01, tcp=Tcp(congestion_control="cubic", slow_start_after_idle=False))
LATER_S = 0.04


@pytest.mark.parametrize("met", [True, False])
def test_messages_of_the_warm_up_are_late_by_it_if_it_met_them(*, met: bool) -> None:
    designed = {(0, 1): ASKED, (1, 0): ASKED}
    late = replace(ASKED, delay_s=ASKED.delay_s + LATER_S)
    early = [(0.06, late), (0.09, ASKED)] if met else []
    steps = [(0.0, ASKED), *early, (1.0, late), (1.5, ASKED)]
    slow = {**designed, (1, 0): replace(ASKED, conditions=lambda: iter(steps))}
    hosts = vw.hosts(2, of=vw.profile((60_000,)))
    run = vw.run(Allreduce, size=2, seed=1, links=slow, on_hosts=hosts, iterations=30)
    found = observe(run.trace, replace(replace(run, links=designed).reference(), modelled=True, tcp=ASKED.tcp))
    (departure,) = found.links.departures
    assert (str(departure.element), departure.part) == ("edge-2 -> edge-1", Part.DELAY)
    (link,) = (each for each in found.carried if each.element == departure.element)
    assert np.asarray(link.added_delay_ns)[0] / 1e9 == pytest.approx(LATER_S if met else 0.0, rel=0.01)
    (change,) = departure.restored.changes
    sent_s = (link.rows["send_start_ns"] - link.began_ns) / 1e9
    assert change.less_s.at(np.append(0.0, sent_s)).tolist()[1:] == pytest.approx((link.added_delay_ns / 1e9).tolist())
    assert change.less_s.at(np.zeros(1))[0] == pytest.approx(LATER_S if met else 0.0, rel=0.01)  # acknowledgements, too
    assert not change.less_s.at(sent_s[1:10]).any()
