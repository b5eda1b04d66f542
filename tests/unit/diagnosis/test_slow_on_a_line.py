"""A link that is slower by itself, and passes a line that several share: named as that, at what it costs."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from functools import partial

import pytest
import virtual_world as vw

from e2c_dl import strategies
from e2c_dl.diagnosis.analyse import analyse
from e2c_dl.diagnosis.model import Part
from e2c_dl.diagnosis.observed import observe
from e2c_dl.diagnosis.resimulation.measure import Layout, Retraining
from e2c_dl.scenario.model import Tcp
from e2c_dl.topology import Bottleneck
from e2c_dl.worlds.allotment import Equal
from e2c_dl.worlds.virtual import LinkModel, SharedRate
from e2c_dl.worlds.virtual.links import bottlenecks

SIZE, ITERATIONS, BUCKETS, LINE_BPS = 4, 15, (120_000, 60_000), 20e6
LINK = LinkModel(rate_bps=50e6, delay_s=0.005, tcp=Tcp(congestion_control="cubic", slow_start_after_idle=False))


def named_on_a_line(strategy: str, own: LinkModel, departs: Mapping[str, float], *, modelled: bool, off: float) -> Part:
    """As what the first link of a line is named, all of whose links are ``own``, if it ``departs``.

    Nobody else is, and what it costs is told to ``off`` of the run.
    """
    made = strategies.load(strategy)
    links = dict.fromkeys(made().used_links(["edge"] * SIZE), own)
    up = tuple(pair for pair in links if pair[0] in (1, 2))

    def ran(changed: dict[tuple[int, int], LinkModel]) -> vw.Run:
        hosts, line = vw.hosts(SIZE, of=vw.profile(BUCKETS), noise=0.05), SharedRate(rate_bps=LINE_BPS, links=up)
        return vw.run(
            made, size=SIZE, seed=3, links=links | changed, bottlenecks=[line], on_hosts=hosts, iterations=ITERATIONS
        )

    run = ran({up[0]: replace(own, **departs)})
    run_s, without_s = (max(rank.spans["end_ns"].max() for rank in each.trace.ranks) / 1e9 for each in (run, ran({})))
    names = [host.name for host in run.hosts]
    line = Bottleneck(name="uplink", rate_bps=LINE_BPS, links=tuple((names[src], names[dst]) for src, dst in up))
    reference = replace(run, links=links).reference()
    topology = replace(reference.topology, bottlenecks=(line,))
    training = Retraining(
        strategy=made, samples=[host.samples for host in run.hosts], allotment=partial(Equal, ITERATIONS), seed=3,
        layout=Layout(dtype="float32", buckets=BUCKETS), tcp=own.tcp, bottlenecks=bottlenecks(topology),
        own_bps=dict.fromkeys(up, own.rate_bps), in_step=not made().asynchronous,
    )  # fmt: skip
    reference = replace(reference, topology=topology, modelled=modelled, tcp=own.tcp)
    (culprit,) = analyse(run.trace, reference, training, speeding_up=False).culprits
    assert str(culprit.element) == f"{names[up[0][0]]} -> {names[up[0][1]]}"
    assert run_s - culprit.saved_s == pytest.approx(without_s, abs=off * run_s)
    return culprit.part


@pytest.mark.parametrize("modelled", [True, False])
@pytest.mark.parametrize(
    ("strategy", "departs", "parts", "off"),
    [
        ("allreduce", {"rate_bps": 50e6 / 6}, {Part.RATE}, 0.01),
        ("allreduce", {"loss": 0.02}, {Part.LOSS}, 0.01),
        ("parameterserver", {"rate_bps": 50e6 / 6}, {Part.RATE}, 0.01),
        ("asyncparameterserver", {"rate_bps": 50e6 / 6}, {Part.RATE, Part.RATE_OR_DELAY}, 0.07),
    ],
)
def test_it_is_named_as_what_it_is_and_costs_what_it_does(strategy, departs, parts, off, modelled) -> None:
    assert named_on_a_line(strategy, LINK, departs, modelled=modelled, off=off) in parts


@pytest.mark.parametrize("modelled", [True, False])
@pytest.mark.parametrize("own_bps", [15e6, 50e6])
def test_an_added_delay_is_told_as_that_and_costs_what_it_does(own_bps: float, modelled: bool) -> None:
    """What is left of the line while it is late makes it look slow; first bytes that found the line idle do not."""
    own, later = replace(LINK, rate_bps=own_bps), {"delay_s": LINK.delay_s + 0.1}
    assert named_on_a_line("parameterserver", own, later, modelled=modelled, off=0.03) is Part.DELAY


def test_what_others_leave_the_links_of_a_line_does_not_hide_one_beside_it() -> None:
    """On machines links are held to each other, and those of the line are far from what is expected of them."""
    made = strategies.load("ako")
    size = 5
    links = dict.fromkeys(made().used_links(["edge"] * size), LINK)
    up, slow = tuple(pair for pair in links if pair[0] < 3 <= pair[1]), (4, 3)
    run = vw.run(
        made, size=size, seed=3, links=links | {slow: replace(LINK, rate_bps=LINK.rate_bps / 1.3)},
        bottlenecks=[SharedRate(rate_bps=2 * LINE_BPS, links=up)],
        on_hosts=vw.hosts(size, of=vw.profile(BUCKETS), noise=0.05), iterations=40,
    )  # fmt: skip
    names = [host.name for host in run.hosts]
    line = Bottleneck(name="uplink", rate_bps=2 * LINE_BPS, links=tuple((names[src], names[dst]) for src, dst in up))
    reference = replace(run, links=links).reference()
    topology = replace(reference.topology, bottlenecks=(line,))
    observed = observe(run.trace, replace(reference, topology=topology, modelled=False, tcp=LINK.tcp))
    assert [str(each.element) for each in observed.links.departures] == [f"{names[slow[0]]} -> {names[slow[1]]}"]
