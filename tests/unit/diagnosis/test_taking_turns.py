"""Links that take turns: the windows of the others, in order of time, tell when one of them is slow."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import numpy.typing as npt

from e2c_dl.diagnosis.detection.series import Levelled, Series
from e2c_dl.diagnosis.detection.together import levelled_together


def departs(one: Levelled) -> npt.NDArray[np.bool_]:
    return one.judged(0.0).windows


def in_turn(member: int, slowed: float, *, noise: float = 0.004, count: int = 9) -> Series:
    """One of four members that take turns, each a window of 0.2 s in 1.1 s; slow for 1.2 s in 2.9 s, where it is."""
    draw = np.random.default_rng(member)
    begins_s = 1.1 * np.arange(count) + 0.27 * member
    slow = (begins_s + 0.1) % 2.9 > 1.7
    values = draw.normal(0.0, noise, count) + slowed * slow
    return Series(
        values=values, iterations=np.arange(count), begins_s=begins_s, until_s=float(begins_s[-1] + 1.0),
        spent_s=0.2 * np.exp(values),
    )  # fmt: skip


def told_in_turn(slowed: tuple[float, ...], *, taking_turns: bool = True) -> list[Levelled]:
    layer = [in_turn(member, each) for member, each in enumerate(slowed)]
    return levelled_together(layer, ["edge"] * len(layer), taking_turns=["edge"] if taking_turns else ())


def test_the_windows_of_others_tell_when_one_that_takes_turns_with_them_is_slow() -> None:
    alone, together = (told_in_turn((0.4,) * 4, taking_turns=each) for each in (False, True))
    assert not all(departs(one).any() for one in alone), "few windows that are slow by turns tell nothing by themselves"
    for one in together:
        slow = one.series.values > 0.2
        assert (departs(one) == slow).mean() > 0.7, "but for those at the edges of what the others show"
        assert one.as_others


def test_one_that_takes_turns_and_is_as_ever_is_not_named_with_the_others() -> None:
    healthy = told_in_turn((0.4, 0.4, 0.4, 0.0))[-1]
    assert not departs(healthy).any()
    assert not healthy.as_others


def test_noise_names_none_of_those_that_take_turns() -> None:
    for seed in range(0, 400, 4):
        layer = [in_turn(seed + member, 0.0, noise=0.1) for member in range(4)]
        alone = levelled_together(layer, ["edge"] * 4)
        together = levelled_together(layer, ["edge"] * 4, taking_turns=["edge"])
        assert [bool(departs(one).any()) for one in together] == [bool(departs(one).any()) for one in alone]


def test_one_that_is_slow_when_the_others_are_not_is_not_as_they_are() -> None:
    layer = [in_turn(member, 0.4) for member in range(3)]
    odd = in_turn(3, 0.0)
    odd = replace(odd, values=odd.values + 0.4 * ((odd.begins_s > 2.9) & (odd.begins_s < 4.3)))
    found = levelled_together([*layer, odd], ["edge"] * 4, taking_turns=["edge"])[-1]
    assert not found.as_others


def test_members_that_keep_in_step_take_no_turns_whatever_their_order() -> None:
    draw = np.random.default_rng(6)
    layer = [replace(in_turn(member, 0.4), begins_s=1.1 * np.arange(9)) for member in range(4)]
    for order in (range(4), draw.permutation(4).tolist()):
        members = [layer[member] for member in order]
        assert not any(one.as_others for one in levelled_together(members, ["edge"] * 4, taking_turns=["edge"]))


def test_one_that_is_slow_when_nobody_else_is_seen_is_not_as_they_are() -> None:
    layer = [replace(in_turn(member, 0.0), begins_s=1.1 * np.arange(9) + 100 * member) for member in range(3)]
    for member, own in ((0, slice(2, 4)), (2, slice(6, 8))):
        values = layer[member].values.copy()
        values[own] += 0.6
        layer[member] = replace(layer[member], values=values)
    found = levelled_together(layer, ["edge"] * 3, taking_turns=["edge"])
    assert [bool(departs(one).any()) for one in found] == [True, False, True]
    assert not any(one.as_others for one in found)


def test_one_alone_that_is_slow_tells_nothing_of_those_that_take_turns_with_it() -> None:
    accused = 0
    for seed in range(0, 400, 8):
        layer = [in_turn(seed + member, 0.0, noise=0.3) for member in range(6)]
        layer[0] = replace(layer[0], values=layer[0].values + 1.0 * (np.arange(9) > 4))
        alone = levelled_together(layer, ["edge"] * 6)
        together = levelled_together(layer, ["edge"] * 6, taking_turns=["edge"])
        accused += sum(int(departs(one).any()) for one in together[1:]) - sum(
            int(departs(one).any()) for one in alone[1:]
        )
    assert accused <= 1
