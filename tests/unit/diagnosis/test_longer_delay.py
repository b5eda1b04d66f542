"""A delay that comes and goes, whatever TCP makes of it, is told as one; losses stay losses."""

from __future__ import annotations

from dataclasses import replace
from functools import partial

import pytest
import virtual_world as vw

from e2c_dl.diagnosis.analyse import analyse
from e2c_dl.diagnosis.model import Part
from e2c_dl.diagnosis.observed import observe
from e2c_dl.scenario.model import Tcp
from e2c_dl.strategies.ako import Ako
from e2c_dl.strategies.allreduce import Allreduce
from e2c_dl.strategies.fastlinks import FastLinks
from e2c_dl.strategies.powersgd import PowerSGD
from e2c_dl.worlds.virtual import LinkModel

ASKED = LinkModel(rate_bps=220e6, delay_s=0.04, tcp=Tcp(congestion_control="cubic", slow_start_after_idle=False))
LATE = replace(ASKED, delay_s=0.12)
SLOW = replace(ASKED, rate_bps=ASKED.rate_bps / 4)


def told(changed: LinkModel, begin_s: float, period_s: float, share: float, floats: int = 340_000) -> Part:
    """What is told of a link that is ``changed`` for ``share`` of each period, from ``begin_s`` on."""
    begins_s = [begin_s + time * period_s for time in range(20)]
    return met(ASKED, changed, [(at_s, at_s + share * period_s) for at_s in begins_s], floats, iterations=40)


def met(asked: LinkModel, changed: LinkModel, windows: list[tuple[float, float]], floats: int, iterations: int) -> Part:
    """What is told of a link that is ``changed`` in these ``windows``."""
    steps = [(0.0, asked), *((at_s, model) for begin_s, end_s in windows for at_s, model in
             ((begin_s, changed), (end_s, asked)))]  # fmt: skip
    designed = {(0, 1): asked, (1, 0): asked}
    links = {**designed, (1, 0): replace(asked, conditions=lambda: iter(steps))}
    hosts = vw.hosts(2, of=vw.profile((floats,)), noise=0.0 if asked is ASKED else 0.1)
    run = vw.run(Allreduce, size=2, seed=1, links=links, on_hosts=hosts, iterations=iterations)
    found = observe(run.trace, replace(replace(run, links=designed).reference(), modelled=True, tcp=ASKED.tcp))
    (departure,) = (each for each in found.links.departures if str(each.element) == "edge-2 -> edge-1")
    return departure.part


@pytest.mark.parametrize(
    ("begin_s", "period_s", "share"), [(0.55, 0.93, 0.5), (0.2, 0.93, 0.5), (0.4, 1.2, 0.4), (0.3, 0.7, 0.5)]
)
def test_a_delay_that_comes_and_goes_is_no_rate_and_no_loss(begin_s: float, period_s: float, share: float) -> None:
    assert told(LATE, begin_s, period_s, share) is Part.DELAY


NARROW = replace(ASKED, rate_bps=40e6, delay_s=0.003)


@pytest.mark.parametrize(
    ("period_s", "lasts_s", "floats", "longer_s"),
    [(0.1, 0.02, 28_000, 0.04), (0.12, 0.05, 28_000, 0.04), (0.15, 0.04, 60_000, 0.1), (0.2, 0.06, 28_000, 0.1),
     (0.2, 0.06, 60_000, 0.01)],
)  # fmt: skip
def test_a_delay_that_comes_and_goes_within_messages_is_no_rate_and_no_loss(
    period_s: float, lasts_s: float, floats: int, longer_s: float
) -> None:
    later = replace(NARROW, delay_s=NARROW.delay_s + longer_s)
    windows = [(0.05 + number * period_s, 0.05 + number * period_s + lasts_s) for number in range(60)]
    assert met(NARROW, later, windows, floats, iterations=60) is Part.DELAY


@pytest.mark.parametrize(("floats", "fixed_s"), [(2_000, 0.002), (2_000, 0.01), (400, 0.01)])
def test_small_messages_in_close_succession_are_late_by_a_delay_once(floats: int, fixed_s: float) -> None:
    fast = replace(ASKED, rate_bps=228e6, delay_s=0.0011)
    hosts = vw.hosts(4, of=vw.profile((floats,) * 6, fixed_s=fixed_s), noise=0.05)
    designed, later = vw.everywhere(4, fast), replace(fast, delay_s=0.0111)
    once = replace(fast, conditions=lambda: iter([(0.0, fast), (0.15, later), (0.24, fast)]))
    run = vw.run(PowerSGD, size=4, seed=1, links={**designed, (3, 0): once}, on_hosts=hosts, iterations=30)
    found = observe(run.trace, replace(replace(run, links=designed).reference(), modelled=True, tcp=ASKED.tcp))
    (departure,) = found.links.departures
    assert (str(departure.element), departure.part) == ("edge-4 -> edge-1", Part.DELAY)


def test_a_rate_that_comes_and_goes_is_no_delay() -> None:
    assert told(SLOW, 0.55, 0.93, 0.5) is Part.RATE


@pytest.mark.parametrize("floats", [500, 340_000])
def test_losses_are_no_delay_of_the_messages_that_were_sent_again(floats: int) -> None:
    assert told(replace(ASKED, loss=0.1), 0.0, 1000.0, 1.0, floats) is not Part.DELAY


@pytest.mark.parametrize(
    ("rate_bps", "size", "begin_s", "longer_s"),
    [(16e6, 2, 0.5, 0.08), (16e6, 3, 1.2, 0.08), (40e6, 3, 0.8, 0.08), (16e6, 3, 0.8, 0.2)],
)
def test_a_delay_that_comes_to_stay_is_one_where_no_message_finds_the_link_idle(
    rate_bps: float, size: int, begin_s: float, longer_s: float
) -> None:
    asked = replace(ASKED, rate_bps=rate_bps, delay_s=0.0013)
    later = replace(
        asked, conditions=lambda: iter([(0.0, asked), (begin_s, replace(asked, delay_s=0.0013 + longer_s))])
    )
    designed = vw.everywhere(size, asked)
    hosts = vw.hosts(size, of=vw.profile((20_000,) * 4), noise=0.05)
    links = {**designed, (1, 2 % size): later}
    run = vw.run(Allreduce, size=size, seed=1, links=links, on_hosts=hosts, iterations=20)
    found = observe(run.trace, replace(replace(run, links=designed).reference(), modelled=True, tcp=ASKED.tcp))
    (departure,) = found.links.departures
    assert departure.part is Part.DELAY
    assert departure.later_s == pytest.approx(longer_s, abs=0.001)


@pytest.mark.parametrize("longer_s", [0.0, 0.02])
def test_a_lower_rate_does_not_hide_a_longer_delay(longer_s: float) -> None:
    """Messages that wait for each other are later by the rate alone; those that find the link idle tell the rest."""
    asked = replace(ASKED, rate_bps=50e6, delay_s=0.005)
    designed = vw.everywhere(6, asked)
    links = {**designed, (1, 2): replace(asked, rate_bps=25e6, delay_s=0.005 + longer_s)}
    hosts = vw.hosts(6, of=vw.profile((55_000, 55_000), fixed_s=0.09), noise=0.05)
    run = vw.run(Allreduce, size=6, seed=1, links=links, on_hosts=hosts, iterations=20)
    found = observe(run.trace, replace(replace(run, links=designed).reference(), modelled=True, tcp=ASKED.tcp))
    (departure,) = found.links.departures
    assert departure.part is Part.RATE
    assert ("later than its rate and its delay of 5 ms explain" in departure.evidence) == (longer_s > 0)
    assert departure.restored.changes[0].less_s.values.max() == pytest.approx(longer_s, abs=0.001)


@pytest.mark.parametrize("seed", [3, 6])
def test_two_first_bytes_that_are_late_by_the_same_are_so_by_a_delay_though_windows_open_behind_it(seed: int) -> None:
    late_s, period, jitter_s = 0.04, 50, 0.0008
    fair = replace(ASKED, rate_bps=380e6, delay_s=0.0016, jitter_s=jitter_s)
    fast = replace(fair, rate_bps=426e6)  # a star of these: others are measured, and left alone
    designed = {pair: fair if 0 not in pair else fast for pair in vw.everywhere(4, fair)}
    later = replace(fair, delay_s=fair.delay_s + late_s)
    tried = designed | {(3, 1): replace(fair, conditions=lambda: iter([(0.0, fair), (0.1, later)]))}
    hosts = vw.hosts(4, of=vw.profile((67_000,), per_sample_s=1e-4), noise=0.05)
    strategy = partial(FastLinks, period=period)
    run = vw.run(strategy, size=4, seed=seed, links=tried, on_hosts=hosts, iterations=period + 3)
    reference = replace(replace(run, links=designed).reference(), modelled=True, tcp=ASKED.tcp)
    links = {pair: replace(link, jitter_s=jitter_s) for pair, link in reference.topology.links.items()}
    found = observe(run.trace, replace(reference, topology=replace(reference.topology, links=links)))
    (link,) = (each for each in found.carried if each.pair == ("edge-4", "edge-2"))
    assert len(link.rows) == 6
    (departure,) = found.links.departures
    assert departure.part is Part.DELAY
    assert departure.later_s == pytest.approx(late_s, rel=0.03)


def test_a_delay_that_is_always_there_is_told_where_all_messages_wait_for_a_window_that_is_narrow_for_it() -> None:
    edge, cloud = (replace(ASKED, rate_bps=bps, delay_s=delay_s) for bps, delay_s in ((95e6, 0.0113), (450e6, 0.003)))
    layers, late_s, lossy = ["edge"] * 6 + ["cloud"] * 2, 0.01, (3, 2)
    designed = {pair: edge if max(pair) < 6 else cloud for pair in vw.everywhere(8, edge)}
    designed[lossy] = replace(edge, loss=0.004)  # it is on time
    late = {pair for pair in designed if max(pair) < 6} - {lossy}
    tried = {pair: replace(link, delay_s=link.delay_s + late_s * (pair in late)) for pair, link in designed.items()}
    hosts = vw.hosts(8, of=vw.profile((94_000,), per_sample_s=1e-4), noise=0.05, samples=32, layers=layers)
    run = vw.run(Ako, size=8, seed=3, links=tried, on_hosts=hosts, iterations=38)
    reference = replace(replace(run, links=designed).reference(), modelled=True, tcp=ASKED.tcp)
    (found,) = analyse(run.trace, reference).culprits
    assert (found.part, len(found.members)) == (Part.DELAY, len(late))
    assert "edge-4 -> edge-3" not in [str(each) for each in found.members]
