"""What of a link departs: its rate, its delay, or what it loses; late reads of a busy machine are none of these."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
import virtual_world as vw

from e2c_dl.diagnosis.analyse import analyse
from e2c_dl.diagnosis.model import Finding, Part
from e2c_dl.scenario.model import Tcp
from e2c_dl.strategies.allreduce import Allreduce
from e2c_dl.trace.model import Phase, Trace
from e2c_dl.trace.propagation.connections import LINK_ITERATION, Connections, LinkTraffic
from e2c_dl.worlds.virtual import LinkModel

SIZE, SLOW = 4, (1, 2)
ASKED = LinkModel(rate_bps=50e6, delay_s=0.002, tcp=Tcp(congestion_control="cubic", slow_start_after_idle=False))


def trained(**departs: float) -> vw.Run:
    """A run one link of which departs."""
    links = {**vw.everywhere(SIZE, ASKED), SLOW: replace(ASKED, **departs)}
    hosts = vw.hosts(SIZE, of=vw.profile((120_000, 60_000)), noise=0.05)
    return vw.run(Allreduce, size=SIZE, seed=1, links=links, on_hosts=hosts, iterations=25)


def named(run: vw.Run, trace: Trace) -> Finding:
    """Its only culprit, by what was asked for."""
    reference = replace(run, links=vw.everywhere(SIZE, ASKED)).reference()
    (culprit,) = analyse(trace, reference).culprits
    return culprit


@pytest.mark.parametrize(
    ("departs", "part"),
    [({"rate_bps": 16e6}, Part.RATE), ({"loss": 0.02}, Part.LOSS), ({"delay_s": 0.04, "rate_bps": 50e6}, Part.DELAY)],
)
def test_a_link_departs_by_what_was_changed(departs, part) -> None:
    run = trained(**departs)
    culprit = named(run, run.trace)
    assert (culprit.element.src, culprit.element.dst) == ("edge-2", "edge-3")
    assert culprit.part is part


@pytest.mark.parametrize(("again", "is_loss"), [(20.0, True), (0.0, False), (np.nan, True)])
def test_where_no_socket_sent_anything_again_nothing_was_lost(again, is_loss) -> None:
    run = trained(loss=0.02)
    total = np.zeros(1, dtype=LINK_ITERATION)
    total["segments"], total["retransmissions"] = 1000, again
    told = LinkTraffic(src=1, dst=2, connections=1, per_iteration=total[:0], total=total, is_data=True)
    trace = replace(run.trace, connections=Connections(links=(told,)))
    assert (named(run, trace).part is Part.LOSS) is is_loss


def test_a_slow_link_some_of_whose_messages_are_read_late_loses_nothing() -> None:
    run = trained(rate_bps=16e6)
    reader = run.trace.ranks[SLOW[1]]
    late = reader.spans.copy()
    received = np.flatnonzero((late["phase"] == Phase.RECEIVE) & (late["src"] == SLOW[0]))
    late["end_ns"][received[::20]] += 4_000_000
    ranks = tuple(replace(rank, spans=late) if rank is reader else rank for rank in run.trace.ranks)
    assert named(run, replace(run.trace, ranks=ranks)).part is Part.RATE
