"""Of a link that loses segments all late messages are restored, those of windows that do not show it among them."""

from __future__ import annotations

from dataclasses import replace

import virtual_world as vw

from e2c_dl.diagnosis.model import Part
from e2c_dl.diagnosis.observed import observe
from e2c_dl.scenario.model import Tcp
from e2c_dl.strategies.allreduce import Allreduce
from e2c_dl.worlds.virtual import LinkModel

ASKED = LinkModel(rate_bps=50e6, delay_s=0.01, tcp=Tcp(congestion_control="cubic", slow_start_after_idle=False))
LATE_NS = 15_000_000
OFTEN_S = 0.8


def test_late_messages_are_restored_wherever_they_are() -> None:
    designed = {(0, 1): ASKED, (1, 0): ASKED}
    often, seldom = replace(ASKED, loss=0.05), replace(ASKED, loss=0.005)
    steps = [(0.0, seldom), (OFTEN_S, often), (1.8, seldom)]
    links = {**designed, (1, 0): replace(ASKED, conditions=lambda: iter(steps))}
    hosts = vw.hosts(2, of=vw.profile((20_000,) * 4))
    run = vw.run(Allreduce, size=2, seed=2, links=links, on_hosts=hosts, iterations=40)
    found = observe(run.trace, replace(replace(run, links=designed).reference(), modelled=True, tcp=ASKED.tcp))
    (departure,) = (each for each in found.links.departures if str(each.element) == "edge-2 -> edge-1")
    assert departure.part is Part.LOSS
    (link,) = (each for each in found.carried if each.element == departure.element)
    late = (link.services_ns > link.expected_ns + LATE_NS) & (link.rows["iteration"] >= 3)  # windows are open
    sent_s = (link.rows["send_start_ns"] - link.began_ns) / 1e9
    assert (late & (sent_s < OFTEN_S)).any(), "some are late while losses are so rare that no window shows them"
    assert departure.when.onset_s <= sent_s[late][0] + 1e-6
    (change,) = departure.restored.changes
    assert (change.scale.at(sent_s[late]) < 0.9).all()
