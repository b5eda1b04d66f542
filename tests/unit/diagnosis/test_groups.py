"""Hosts of a layer that depart alike are one departure, though they do not end training together."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from e2c_dl.diagnosis.departures import Departure, Looked
from e2c_dl.diagnosis.detection.groups import grouped
from e2c_dl.diagnosis.model import Element, ElementKind, Part
from e2c_dl.diagnosis.piecewise import Piecewise
from e2c_dl.diagnosis.replay.whatif import Change, WhatIf
from e2c_dl.diagnosis.stretches import Stretches, When

LAYERS = {"edge-1": "edge", "edge-2": "edge", "edge-3": "edge"}


def departure(host: str, when: When, begin_s: float, end_s: float) -> Departure:
    stretch = Stretches(when=when, onset_iteration=3, onset_s=begin_s, begins_s=(begin_s,), ends_s=(end_s,))
    return Departure(
        element=Element(kind=ElementKind.HOST, src=host), part=Part.COMPUTE, when=stretch, slowdown=2.0, observed=0.2,
        expected=0.1, evidence="", restored=WhatIf(), excess_s=1.0,
    )  # fmt: skip


@pytest.mark.parametrize(
    ("when", "end_s", "groups"),
    [
        (When.SINCE, 21.0, 1),  # it has trained its iterations, and says nothing of later
        (When.ONCE, 21.0, 3),  # it trained on, as fast as ever
        (When.ONCE, 34.0, 1),
    ],
)
def test_one_that_ends_training_early_may_be_of_the_group(when: When, end_s: float, groups: int) -> None:
    early = departure("edge-1", when, 19.0, end_s)
    others = [departure(host, When.SINCE, 19.0, 34.0) for host in ("edge-2", "edge-3")]
    assert len(grouped([early, *others], [], {}, LAYERS)) == groups


def recurring(host: str, times: int) -> Departure:
    begins_s = tuple(2.0 + 10.0 * number for number in range(times))
    ends_s = tuple(at_s + 4.0 for at_s in begins_s)
    when = Stretches(when=When.PERIODIC, onset_iteration=1, onset_s=2.0, begins_s=begins_s, ends_s=ends_s)
    return replace(departure(host, When.PERIODIC, 2.0, 6.0), when=when)


def test_one_that_is_slow_by_turns_and_ends_training_early_is_of_the_group() -> None:
    (group,) = grouped([recurring("edge-1", 3), recurring("edge-2", 6), recurring("edge-3", 6)], [], {}, LAYERS)
    assert len(group.members) == 3


def test_one_of_many_hosts_that_shows_less_of_it_is_of_the_group() -> None:
    hosts = [f"edge-{number}" for number in range(1, 8)]
    odd = replace(departure(hosts[0], When.ONCE, 19.0, 23.0), slowdown=1.4)
    others = [departure(host, When.SINCE, 19.0, 34.0) for host in hosts[1:]]
    (group,) = grouped([odd, *others], [], {}, dict.fromkeys(hosts, "edge"))
    assert len(group.members) == len(hosts)


@pytest.mark.parametrize("seen_at", [1.2, 4.0])
def test_a_host_that_is_slow_in_another_part_is_none_of_the_group(seen_at: float) -> None:
    hosts = [f"edge-{number}" for number in range(1, 7)]
    steps = replace(departure(hosts[5], When.PERSISTENT, 0.0, 34.0), part=Part.STEP)
    sums = [replace(departure(host, When.ONCE, 3.0, 4.0), part=Part.REDUCE) for host in hosts[:5]]
    found = grouped([steps, *sums], [], dict.fromkeys((steps.element,), seen_at), dict.fromkeys(hosts, "edge"))
    assert steps in found
    groups = [each for each in found if each.element.kind is ElementKind.GROUP]
    assert [len(each.members) for each in groups] == ([5] if seen_at > 2.0 else [])  # it is as designed in theirs


@pytest.mark.parametrize(("slowdown", "members"), [(2.0, 3), (4.0, 2)])
def test_one_that_may_be_late_for_another_reason_is_of_the_group_if_it_departs_alike(
    slowdown: float, members: int
) -> None:
    *own, unsure = (departure(host, When.PERSISTENT, 0.0, 34.0) for host in LAYERS)
    (group,) = grouped(own, [replace(unsure, slowdown=slowdown)], {}, LAYERS)
    assert len(group.members) == members


def slow_link(dst: int, slowdown: float, part: Part = Part.RATE, when: When = When.PERSISTENT) -> Departure:
    whole = departure("edge-1", when, 0.0, 34.0 if when is When.PERSISTENT else 3.0)
    return replace(
        whole, element=Element(kind=ElementKind.LINK, src="edge-1", dst=f"fog-{dst}"), part=part, slowdown=slowdown
    )


FOG = {"edge-1": "edge", **{f"fog-{number}": "fog" for number in range(1, 10)}}


@pytest.mark.parametrize(
    ("odd", "members"),
    [
        (slow_link(7, 1.5), 7),  # its messages are few
        (slow_link(7, 3.2), 7),
        (slow_link(7, 3.0, Part.LOSS), 7),
        (slow_link(7, 3.0, when=When.ONCE), 7),
        (slow_link(7, 9.0), 6),  # it has a cause of its own
    ],
)
def test_one_of_many_links_that_are_slow_together_may_show_less_of_it(odd: Departure, members: int) -> None:
    typical = [slow_link(number, slowdown) for number, slowdown in enumerate((2.4, 3.0, 3.0, 3.0, 3.0, 3.0), start=1)]
    group, *others = grouped([*typical, odd], [], {}, FOG)
    assert (len(group.members), group.part, len(others)) == (members, Part.RATE, 7 - members)


def test_what_luck_took_from_a_message_of_one_that_is_of_the_group_is_not_the_groups() -> None:
    """A link of which little can be seen, for it loses segments by design: one of its messages waits 0.3 s for that."""
    lucky = slow_link(3, 4.5, Part.RATE_DELAY_OR_LOSS)
    scale = Piecewise(starts_s=np.array([0.0, 1.0, 2.0]), values=np.array([0.01, 1 / 1.5, 1.0]))
    lucky = replace(lucky, restored=WhatIf(changes=(Change(element=lucky.element, scale=scale),)))
    (group,) = grouped([slow_link(1, 1.5), slow_link(2, 1.5)], [lucky], {lucky.element: 6.0}, FOG)
    assert len(group.members) == 3
    (told,) = group.restored.changes
    assert told.scale.values == pytest.approx([1.0, 1 / 1.5, 1.0], abs=0.02)


def test_one_of_few_links_that_is_unlike_leaves_each_by_itself() -> None:
    assert len(grouped([slow_link(1, 3.0), slow_link(2, 3.0), slow_link(3, 9.0)], [], {}, FOG)) == 3


@pytest.mark.parametrize(("seen_at", "members"), [(20.0, 3), (1.5, 2)])
def test_a_link_of_which_so_little_could_be_seen_is_of_the_group(seen_at: float, members: int) -> None:
    blind = slow_link(3, 7.0, Part.RATE_DELAY_OR_LOSS)
    own = [slow_link(1, 3.0), slow_link(2, 3.0)]
    found = grouped(own, [blind], {blind.element: seen_at}, FOG)
    assert len(found) == (1 if members == 3 else 2)
    assert len(found[0].members) == (members if members == 3 else 0)


@pytest.mark.parametrize(("rates", "losses", "together"), [(4, 2, True), (2, 2, False), (2, 4, True), (3, 3, False)])
def test_links_that_are_slow_together_are_so_by_what_more_than_half_of_them_say(
    rates: int, losses: int, together: bool
) -> None:
    own = [slow_link(dst, 2.0, Part.RATE if dst < rates else Part.LOSS) for dst in range(rates + losses)]
    layers = {"edge-1": "edge", **{f"fog-{dst}": "fog" for dst in range(rates + losses)}}
    found = grouped(own, (), {}, layers)
    assert (len(found) == 1) is together
    if together:
        assert found[0].part is (Part.RATE if rates > losses else Part.LOSS)


def test_a_link_through_a_shared_line_says_nothing_of_those_beside_it() -> None:
    own = [slow_link(1, 3.0), slow_link(2, 3.0)]
    healthy = slow_link(3, 1.0).element
    assert len(grouped(own, [], {healthy: 1.1}, FOG)) == 2
    (group,) = grouped(own, [], {healthy: 1.1}, FOG, line_of={("edge-1", "fog-3"): "access"})
    assert (len(group.members), str(group.element)) == (2, "2 links edge -> fog")


def test_links_that_share_a_line_are_a_group_of_their_own() -> None:
    own = [slow_link(number, 3.0) for number in (1, 2, 3, 4)]
    line_of = dict.fromkeys([("edge-1", "fog-3"), ("edge-1", "fog-4")], "access")
    found = [str(each.element) for each in grouped(own, [], {}, FOG, line_of=line_of)]
    assert found == ["2 links edge -> fog", "2 links edge -> fog through access"]


def test_links_that_are_late_by_one_delay_are_a_group_however_many_times_slower_it_makes_them() -> None:
    late = [slow_link(number, times, Part.DELAY) for number, times in enumerate((1.7, 1.8, 1.7), start=1)]
    few = [
        slow_link(number, times, Part.RATE_DELAY_OR_LOSS) for number, times in enumerate((1.2, 40.0, 700.0), start=4)
    ]
    own = [replace(each, later_s=0.004) for each in (*late, *few)]
    (group,) = grouped(own, [], {}, FOG)
    assert len(group.members) == 6 and group.part is Part.DELAY
    much = replace(slow_link(7, 700.0, Part.RATE_DELAY_OR_LOSS), later_s=0.4)  # it has a cause of its own
    assert [len(each.members) for each in grouped([*own, much], [], {}, FOG)] == [6, 0]
    assert len(grouped([replace(each, later_s=0.0) for each in own], [], {}, FOG)) == 6


@pytest.mark.parametrize(("on_time", "when", "members"), [
    (True, When.PERSISTENT, 5), (False, When.PERSISTENT, 6), (True, When.SINCE, 6),  # it may have been on time before
])  # fmt: skip
def test_a_link_that_was_on_time_is_not_of_those_that_are_always_late(on_time: bool, when: When, members: int) -> None:
    late = [replace(slow_link(dst, 2.0, Part.DELAY, when), later_s=0.01) for dst in range(2, 7)]
    unseen = replace(slow_link(7, 2.0, Part.RATE_DELAY_OR_LOSS, when), later_s=0.01, on_time=on_time)
    (group,) = grouped(late, [unseen], {unseen.element: 4.0}, FOG)
    assert len(group.members) == members


def test_links_that_are_late_by_unlike_delays_are_none_however_little_slower_these_make_large_messages() -> None:
    later_s = {1: 0.023, 2: 0.045, 3: 0.044}
    own = [replace(slow_link(dst, 1.02, Part.DELAY), later_s=each) for dst, each in later_s.items()]
    assert len(grouped(own, [], {}, FOG)) == 3
    assert len(grouped(own[1:], [], {}, FOG)) == 1


def looked(*windows: tuple[float, float, bool]) -> Looked:
    begins_s, ends_s, departs = map(np.array, zip(*windows, strict=True))
    return Looked(begins_s=begins_s, ends_s=ends_s, departs=departs)


@pytest.mark.parametrize(("last_s", "groups"), [(18.0, 1), (20.0, 2)])
def test_a_host_that_had_trained_before_the_others_became_slow_does_not_speak_against_them(
    last_s: float, groups: int
) -> None:
    own = [departure(host, When.SINCE, 19.0, 34.0) for host in ("edge-2", "edge-3")]
    healthy = departure("edge-1", When.SINCE, 19.0, 34.0).element
    seen = {each.element: looked((10.0, 19.0, False), (19.0, 34.0, True)) for each in own}
    seen[healthy] = looked((10.0, last_s, False), (last_s, 21.0, False))
    assert len(grouped(own, [], {healthy: 1.1}, LAYERS, looked=seen)) == groups


RARELY = {  # three links that carry something now and then, of a layer that is slow from 2 to 3 s and from 5 to 6 s
    1: looked((1.0, 1.1, False), (2.1, 2.4, True), (2.5, 2.8, True), (4.0, 4.1, False), (5.0, 5.3, True)),
    2: looked((2.3, 2.6, True), (5.2, 5.5, True)),  # never when it is fast
    3: looked((0.5, 0.6, False), (3.5, 3.6, False), (7.0, 7.1, False)),  # never when it is slow
}


def test_links_that_carry_something_now_and_then_are_a_group_by_how_they_were_at_those_times() -> None:
    own = [slow_link(1, 3.0, when=When.AT_TIMES), slow_link(2, 3.0)]
    healthy = slow_link(3, 1.0).element
    seen = {slow_link(number, 3.0).element: each for number, each in RARELY.items()}
    (group,) = grouped(own, [], {healthy: 1.1}, FOG, looked=seen)
    assert len(group.members) == 2
    at_another_time = seen | {own[1].element: looked((1.0, 1.2, True), (2.3, 2.5, False), (5.2, 5.3, False))}
    assert len(grouped(own, [], {}, FOG, looked=at_another_time)) == 2
    fast_meanwhile = seen | {healthy: looked((2.2, 2.3, False))}
    assert len(grouped(own, [], {healthy: 1.1}, FOG, looked=fast_meanwhile)) == 2


def test_links_that_are_used_once_to_measure_them_do_not_decide_who_is_alike() -> None:
    """They carry little, in windows that open: by less than their rate are they seen to be slow."""
    once = [slow_link(number, 2.0, Part.RATE_DELAY_OR_LOSS) for number in range(4, 10)]
    own = [*(slow_link(number, 3.0) for number in (1, 2, 3)), *once]
    seen = {each.element: looked(*((at_s, at_s + 0.5, True) for at_s in range(20))) for each in own}
    (group,) = grouped(own, [], {}, FOG, looked=seen | {each.element: looked((0.0, 0.1, True)) for each in once})
    assert (len(group.members), group.slowdown) == (9, 3.0)
    assert [len(each.members) for each in grouped(own, [], {}, FOG, looked=seen)] == [6, 0, 0, 0]  # seen as often


@pytest.mark.parametrize("as_others", [True, False])
def test_those_that_others_tell_when_they_depart_are_of_one_group_whatever_each_shows(as_others: bool) -> None:
    first = replace(departure("edge-1", When.ONCE, 2.0, 4.0), as_others=True)
    second = replace(departure("edge-2", When.ONCE, 12.0, 13.0), as_others=as_others)
    third = replace(departure("edge-3", When.ONCE, 22.0, 23.5), as_others=as_others)
    found = grouped([second, first, third], [], {}, LAYERS)
    if not as_others:
        assert len(found) == 3
        return
    (group,) = found
    assert len(group.members) == 3
    assert group.when == Stretches(
        when=When.PERIODIC, onset_iteration=3, onset_s=2.0, begins_s=(2.0, 12.0, 22.0), ends_s=(4.0, 13.0, 23.5),
        period_s=10.0,
    )  # fmt: skip
