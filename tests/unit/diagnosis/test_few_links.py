"""Links of a library that have no peers: of one that is slow all the time nothing is seen, and that is said."""

from __future__ import annotations

from dataclasses import replace

from ddp import Ddp, name, simulate
from test_scripts import report_of

from e2c_dl.diagnosis.model import ElementKind
from e2c_dl.report.verdict import Tone, verdict_of
from e2c_dl.trace.propagation.connections import Connections

RUN = Ddp(iterations=20, noise=0.05)
OWN_PAST = "few carried data: each is held to its own past"


def test_of_two_links_none_is_said_to_be_visible_and_the_slow_one_is_no_healthy_bottleneck() -> None:
    found = report_of(simulate(replace(RUN, ranks=2, slow_links={1: 0.2})))
    assert not found.findings and ElementKind.LINK not in found.least_visible
    assert found.unjudged == ("node-1 -> node-2", "node-2 -> node-1")
    said = verdict_of(found)
    assert "2 links that are slower all the time, as nobody knows how fast they should be" in said.headline
    assert said.tone is Tone.UNDECIDED


def test_of_four_links_what_would_be_seen_is_told() -> None:
    found = report_of(simulate(RUN))
    assert found.least_visible[ElementKind.LINK] < 1.3 and not found.unjudged


def test_links_within_machines_are_no_peers_of_the_two_between_them() -> None:
    """Two machines of four ranks, one after the other in the ring."""
    trace = simulate(replace(RUN, ranks=8, slow_links={3: 0.2}))
    links = [replace(each, within_machine=each.src not in (3, 7)) for each in trace.connections.links]
    found = report_of(replace(trace, connections=Connections(links=tuple(links))))
    assert not found.findings and ElementKind.LINK not in found.least_visible
    assert f"{name(3)} -> {name(4)}" in found.unjudged
    assert any(OWN_PAST in each for each in found.limitations)
