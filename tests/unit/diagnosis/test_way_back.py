"""A delay one way, and losses by design the other: what it costs shows in what is sent again there."""

from __future__ import annotations

from dataclasses import replace

import pytest
import virtual_world as vw

from e2c_dl.diagnosis.analyse import analyse
from e2c_dl.diagnosis.model import Part
from e2c_dl.scenario.model import Tcp
from e2c_dl.strategies.allreduce import Allreduce
from e2c_dl.worlds.virtual import LinkModel

ASKED = LinkModel(rate_bps=50e6, delay_s=0.01, tcp=Tcp(congestion_control="cubic", slow_start_after_idle=False))


def trained(loss: float, later_s: float) -> tuple[vw.Run, vw.Run]:
    """Two ranks: one way loses segments by design, the other is later than designed; and the same without that."""
    designed = {(0, 1): replace(ASKED, loss=loss), (1, 0): ASKED}
    slow = {**designed, (1, 0): replace(ASKED, delay_s=ASKED.delay_s + later_s)}
    hosts = vw.hosts(2, of=vw.profile((400_000, 200_000)))
    seen, without = (
        vw.run(Allreduce, size=2, seed=1, links=links, on_hosts=hosts, iterations=30) for links in (slow, designed)
    )
    return replace(seen, links=designed), without


def test_a_delay_is_the_culprit_though_what_costs_is_sent_the_other_way() -> None:
    run, without = trained(loss=0.01, later_s=0.03)
    (culprit,) = analyse(run.trace, run.reference()).culprits
    assert (str(culprit.element), culprit.part) == ("edge-2 -> edge-1", Part.DELAY)
    assert culprit.saved_s == pytest.approx(run.end_s - without.end_s, rel=0.1)  # other segments are lost


@pytest.mark.parametrize("rate_bps", [300e6, 50e6])
def test_a_delay_is_told_from_a_rate_by_first_bytes_and_costs_what_both_windows_take_to_open(rate_bps: float) -> None:
    designed = {pair: replace(ASKED, rate_bps=rate_bps) for pair in ((0, 1), (1, 0))}
    slow = {**designed, (1, 0): replace(ASKED, rate_bps=rate_bps, delay_s=ASKED.delay_s + 0.08)}
    hosts = vw.hosts(2, of=vw.profile((400_000,)))  # all messages are of one size, and apart in time
    seen, without = (
        vw.run(Allreduce, size=2, seed=1, links=links, on_hosts=hosts, iterations=25) for links in (slow, designed)
    )
    reference = replace(replace(seen, links=designed).reference(), modelled=True)
    (finding,) = analyse(seen.trace, reference).findings
    assert (str(finding.element), finding.part) == ("edge-2 -> edge-1", Part.DELAY)
    assert finding.saved_s == pytest.approx(seen.end_s - without.end_s, abs=0.02 * seen.end_s)


def test_a_delay_costs_what_it_is_where_nothing_is_lost() -> None:
    run, without = trained(loss=0.0, later_s=0.03)
    (finding,) = analyse(run.trace, replace(run.reference(), modelled=True)).findings
    assert (finding.part, finding.material) == (Part.DELAY, False)
    assert finding.saved_s == pytest.approx(run.end_s - without.end_s, abs=0.01 * run.end_s)
