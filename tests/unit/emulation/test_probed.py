"""A probe: hosts and links held against the design before training begins."""

from __future__ import annotations

from dataclasses import replace

import pytest

from e2c_dl.emulation.measuring.measured import Measured
from e2c_dl.emulation.measuring.probed import Probe, ProbedHost, ProbedLink
from e2c_dl.topology import Link


def host(name: str, gradient_s: float, designed_s: float | None = None, factor: float = 1.0) -> ProbedHost:
    return ProbedHost(name=name, like="cpu, batch 16", factor=factor, gradient_s=gradient_s, designed_s=designed_s)


def link(src: str, dst: str, rate_bps: float = 1e7, round_trip_s: float = 0.02, floor: bool = False) -> ProbedLink:
    measured = Measured(
        rate_bps=rate_bps, rate_is_floor=floor, round_trip_s=round_trip_s, round_trip_spread_s=0.0, pings=21, loss=0.0,
        loss_samples=200,
    )  # fmt: skip
    designed = Link(rate_bps=1e7, delay_s=0.01)
    return ProbedLink(src=src, dst=dst, designed=designed, designed_round_trip_s=0.02, measured=measured)


def test_as_designed_nothing_is_said() -> None:
    probe = Probe(hosts=(host("a", 0.21, 0.2), host("b", 0.2, 0.2)), links=(link("a", "b"), link("b", "a", 9.5e6)))
    assert probe.sentences() == ()
    assert probe.leave_out == probe.unjudged == ()


def test_a_slow_host_is_named_and_what_leaving_it_out_gains() -> None:
    probe = Probe(hosts=(host("a", 0.2, 0.2), host("b", 0.6, 0.2), host("c", 0.4, 0.4)), links=())
    assert probe.sentences() == (
        "host b: a gradient takes 600 ms, 3.0 × as long as designed (200 ms)",
        "leave out b, or mend what slows it down: the slowest gradient then takes 400 ms instead of 600 ms",
    )


@pytest.mark.parametrize(
    ("times_s", "slow", "unjudged"),
    [
        ((0.2, 0.2, 0.2, 0.5), {"d": 2.5}, ()),
        ((0.2, 0.2, 0.24), {}, ()),
        ((0.2, 0.9), {}, ("a", "b")),  # of two, neither tells which is wrong
    ],
)
def test_hosts_that_are_not_paced_are_held_against_their_peers(times_s, slow, unjudged) -> None:
    probe = Probe(hosts=tuple(host(name, time_s) for name, time_s in zip("abcd", times_s, strict=False)), links=())
    assert probe.slow_hosts == pytest.approx(slow)
    assert probe.unjudged == unjudged


def test_a_peer_s_factor_by_design_is_taken_off() -> None:
    slower = host("d", 0.6, factor=3.0)
    assert Probe(hosts=(*(host(name, 0.2) for name in "abc"), slower), links=()).slow_hosts == {}


@pytest.mark.parametrize(
    ("seen", "said"),
    [
        ({"rate_bps": 5e6}, ("5.00 Mbit/s measured, 10.0 Mbit/s designed",)),
        ({"rate_bps": 5e6, "floor": True}, ()),
        ({"round_trip_s": 0.06}, ("round trip 60.0 ms measured, 20.0 ms designed",)),
        ({"round_trip_s": 0.022}, ()),
    ],
)
def test_a_link_is_slow_by_its_rate_or_its_round_trip(seen, said) -> None:
    assert link("a", "b", **seen).departures == said


def test_one_slow_link_does_not_tell_which_of_its_ends_to_leave_out() -> None:
    probe = Probe(hosts=(), links=(link("a", "b", 1e6), link("b", "c"), link("c", "a")))
    assert [each.src for each in probe.slow_links] == ["a"]
    assert probe.leave_out == ()


def test_a_host_most_of_whose_links_are_slow_is_better_left_out() -> None:
    slow = [("x", "a"), ("a", "x"), ("x", "b"), ("b", "x")]
    probe = Probe(hosts=(), links=(*(link(*pair, 1e6) for pair in slow), link("a", "b"), link("b", "a")))
    assert probe.leave_out == ("x",)


def test_a_link_that_carried_nothing_is_slow() -> None:
    assert link("a", "b", 0.0).slowdown == float("inf")


def test_a_link_over_which_next_to_nothing_comes_is_named_beside_others() -> None:
    dead = [replace(link(*pair), measured=None) for pair in (("x", "a"), ("a", "x"))]
    probe = Probe(hosts=(), links=(*dead, link("a", "b"), link("b", "a"), link("b", "c", 5e6)))
    assert probe.sentences() == (
        "link x -> a: next to nothing comes through",
        "link a -> x: next to nothing comes through",
        "link b -> c: 5.00 Mbit/s measured, 10.0 Mbit/s designed",
        "leave out x, or mend what slows it down",
    )
    assert [row["measured"] is None for row in probe.to_json()["links"]] == [True, True, False, False, False]


def star(*slow: str) -> tuple[ProbedLink, ...]:
    """Links of edges to a server and back."""
    pairs = [pair for edge in ("edge-1", "edge-2", "edge-3") for pair in ((edge, "cloud"), ("cloud", edge))]
    return tuple(link(*pair, 1e6 if {*pair} & {*slow} else 1e7) for pair in pairs)


@pytest.mark.parametrize("slow", [("edge-1",), ("edge-2",), ("cloud",)])
def test_of_a_star_the_edge_whose_links_are_slow_is_named_and_its_server_if_all_are(slow: tuple[str, ...]) -> None:
    assert Probe(hosts=(), links=star(*slow)).leave_out == slow


def test_a_server_with_one_sound_edge_is_not_left_out() -> None:
    assert Probe(hosts=(), links=star("edge-1", "edge-2")).leave_out == ("edge-1", "edge-2")


def test_neighbours_on_a_ring_whose_links_are_slow_are_both_named() -> None:
    slow, other = [("a", "b"), ("b", "c"), ("c", "d")], [("d", "e"), ("e", "a")]
    probe = Probe(hosts=(), links=(*(link(*pair, 1e6) for pair in slow), *(link(*pair) for pair in other)))
    assert probe.leave_out == ("b", "c")


def test_where_all_are_slow_alike_nobody_is_named() -> None:
    links = tuple(link(src, dst, 1e6) for src in "abcd" for dst in "abcd" if src != dst)
    hosts = tuple(host(name, 0.5, 0.2) for name in "abc")
    for hosts_, links_ in (((), links), ((), links[:1] + links[3:4]), (hosts, ())):
        probe = Probe(hosts=hosts_, links=links_)
        assert probe.leave_out == ()
        assert probe.sentences()[-1] == "to leave hosts out mends nothing: all are slow, or their links are"
