"""Series of a layer together: what is too little for each is told by all, and asked of each again."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import numpy.typing as npt
import pytest

from e2c_dl.diagnosis.detection.change_points import noise_of
from e2c_dl.diagnosis.detection.levels import levelled
from e2c_dl.diagnosis.detection.noise import POOLED_AS, in_common, pooled_as
from e2c_dl.diagnosis.detection.series import Levelled, Series
from e2c_dl.diagnosis.detection.together import levelled_together, shared_by

WINDOWS, NOISE = 18, 0.12
SLOW = np.arange(WINDOWS) % 5 > 2


def series(values: npt.NDArray[np.float64], offset_s: float = 0.0) -> Series:
    begins_s = np.arange(len(values)) * 2.0 + offset_s
    spent_s = np.exp(values)
    return Series(
        values=values, iterations=np.arange(len(values)), begins_s=begins_s, until_s=float(begins_s[-1] + 2.0),
        spent_s=spent_s,
    )  # fmt: skip


def members(slowed: tuple[float, ...], seed: int = 2) -> list[Series]:
    draw = np.random.default_rng(seed)
    return [series(draw.normal(0.0, NOISE, WINDOWS) + much * SLOW, 0.1 * place) for place, much in enumerate(slowed)]


def departs(one: Levelled) -> npt.NDArray[np.bool_]:
    return one.judged(0.0).windows


def test_a_layer_that_is_slow_by_turns_is_found_though_no_member_is_by_itself() -> None:
    layer = members((0.32, 0.32, 0.32))
    assert not any(departs(one).any() for one in levelled(layer))
    for one in levelled_together(layer, ["edge"] * 3):
        assert (departs(one) == SLOW).all()
        assert one.noise == pytest.approx(NOISE, rel=0.5)  # not that of the disturbance, which comes and goes


def test_a_member_that_is_as_ever_is_not_named_with_the_others() -> None:
    found = levelled_together(members((0.6, 0.6, 0.6, 0.0)), ["edge"] * 4)
    assert [bool(departs(one).any()) for one in found] == [True, True, True, False]


def test_members_of_other_layers_tell_nothing() -> None:
    layer = members((0.32, 0.32, 0.32))
    alone = levelled_together(layer, ["edge", "fog", "cloud"])
    assert [one.found for one in alone] == [one.found for one in levelled(layer)]


@pytest.mark.parametrize("seed", range(40))
def test_noise_names_nobody_for_being_of_a_layer(seed: int) -> None:
    layer = members((0.0,) * 4, seed)
    alone, together = levelled(layer), levelled_together(layer, ["edge"] * 4)
    assert [bool(departs(one).any()) for one in together] == [bool(departs(one).any()) for one in alone]


@pytest.mark.parametrize("seed", [3, 80, 96, 180, 181])
def test_one_of_two_that_is_slower_by_chance_does_not_tell_itself_when(seed: int) -> None:
    draw, late = np.random.default_rng(seed), np.arange(WINDOWS) >= 5
    uneven = series(draw.normal(0.0, NOISE, WINDOWS) + 0.15 * late)
    pair = [uneven, series(draw.normal(0.0, NOISE, WINDOWS))]
    assert not any(departs(one).any() for one in (*levelled(pair), *levelled_together(pair, ["fog"] * 2)))


def test_a_member_of_few_windows_is_judged_by_those_it_has() -> None:
    layer = members((0.6, 0.6, 0.6))
    short = series(layer[2].values[:5])
    found = levelled_together([*layer[:2], short], ["edge"] * 3)
    assert len(found[2].found) == 1  # two of its windows are touched: that tells nothing


def test_a_member_that_shows_part_of_it_by_itself_is_asked_of_the_rest() -> None:
    layer = members((0.32, 0.32, 0.32), seed=3)
    plain = levelled(layer)[0]
    assert len(plain.found) == 1
    loud = layer[0].values.copy()
    loud[SLOW & (np.arange(WINDOWS) < 10)] += 0.6
    layer[0] = series(loud)
    assert len(levelled(layer)[0].found) > 1, "it has levels of its own"
    assert (departs(levelled_together(layer, ["edge"] * 3)[0]) == SLOW).all()


def test_a_member_whose_own_change_explains_it_better_keeps_it() -> None:
    layer = members((0.6, 0.6, 0.6))
    since = np.random.default_rng(5).normal(0.0, 0.02, WINDOWS) + 2.0 * (np.arange(WINDOWS) >= 12)
    found = levelled_together([*layer, series(since)], ["edge"] * 4)[-1]
    assert (departs(found) == (np.arange(WINDOWS) >= 12)).all()


def test_a_layer_whose_members_end_training_one_after_another_is_judged_while_any_trains() -> None:
    layer = members((0.32,) * 6)
    early = [replace(each, **cut(each, 9)) for each in layer[:3]]
    found = levelled_together([*early, *layer[3:]], ["edge"] * 6)
    assert all((departs(one) == SLOW).all() for one in found[3:]), "also after the first three have ended"


def cut(one: Series, count: int) -> dict[str, object]:
    """Its first ``count`` windows."""
    arrays = {name: getattr(one, name)[:count] for name in ("values", "iterations", "begins_s", "spent_s")}
    return {**arrays, "until_s": float(one.begins_s[count])}


def test_one_that_is_slow_by_turns_in_a_steady_layer_is_found_and_a_layer_that_is_so_altogether_is_not() -> None:
    draw = np.random.default_rng(3)
    turns = np.arange(WINDOWS) % 2 == 1
    steady = [series(draw.normal(0.0, 0.02, WINDOWS)) for _ in range(4)]
    uneven = [series(draw.normal(0.0, 0.02, WINDOWS) + 1.1 * turns) for _ in range(5)]
    found = levelled_together([*steady, uneven[0]], ["edge"] * 5)
    assert (departs(found[-1]) == turns).all()
    assert not any(departs(one).any() for one in found[:-1])
    assert not any(departs(one).any() for one in levelled_together(uneven, ["edge"] * 5))
    (_, _, alone) = levelled_together([*steady[:2], uneven[0]], ["fog", "fog", "edge"])
    assert (departs(alone) == turns).all(), "plainly so, of a layer of its own"


def test_one_that_is_slow_every_other_time_among_few_of_its_layers_is_told_by_all_others() -> None:
    """A link that is slow for 2 of 5 s, in iterations of 2.3 s: they hold less of it now, more then, on no grid."""
    parts = [4.0, 0, 0, 0, 2.2, 1.2, 0, 0, 0, 3.9, 0, 1.5, 0, 0, 0.8, 0, 1.8, 0, 2.7, 0, 3.7]
    slow = np.array(parts) > 0.8  # what holds little of it is as near to the others
    draw = np.random.default_rng(5)
    several = [series(draw.normal(0.004, 0.002, len(parts))) for _ in range(10)]
    several[3] = series(draw.normal(0.004, 0.002, len(parts)) + np.log1p(parts))
    of_layers = ["a", "a", "b", "b", "b", "c", "c", "d", "d", "d"]
    found = levelled_together(several, of_layers)
    assert (departs(found[3]) == slow).all()
    assert not any(departs(one).any() for place, one in enumerate(found) if place != 3)
    few = levelled_together(several[2:5], of_layers[2:5])  # nobody tells what is usual
    assert not departs(few[1]).any()


def test_noises_of_comparable_series_are_shared_as_far_as_they_are_alike() -> None:
    def shared_as(times: float, count: int) -> list[float]:
        draws = (np.random.default_rng(seed) for seed in range(20))
        louder = [1.0, times] * (count // 2)
        return [
            pooled_as([noise_of(draw.normal(0.0, NOISE * each, WINDOWS)) for each in louder], [WINDOWS] * count)
            for draw in draws
        ]

    assert np.median(shared_as(1.0, 16)) > 3 * POOLED_AS, "they differ by chance alone"
    assert np.median(shared_as(4.0, 16)) == POOLED_AS, "half of them are louder"
    assert set(shared_as(1.0, 4)) == {POOLED_AS}, "four do not tell"


def test_of_few_alike_one_that_is_slow_by_turns_is_told_by_the_noise_that_unlike_ones_have_too() -> None:
    others = [series(2.0 + np.random.default_rng(seed).normal(0.0, NOISE, 25)) for seed in range(7)]
    turns = np.arange(25) % 5 > 2
    uneven = series(np.random.default_rng(12).normal(0.0, 1.2 * NOISE, 25) + 0.35 * turns)

    def common(several: list[Series]) -> float | None:
        return in_common([noise_of(each.values) for each in several], [len(each) for each in several])

    noise = common([*others, uneven])
    assert noise == pytest.approx(NOISE, rel=0.3)
    assert len(levelled([uneven], turns=True)[0].found) == 1
    assert (departs(levelled([uneven], turns=True, known_noise=noise)[0]) == turns).all()
    assert common(others[:5]) is None, "too few"
    louder = [series(4 * each.values) for each in others[:3]]
    assert common([*others[3:], *louder]) is None, "not what all have"


def test_a_member_that_happens_to_be_uneven_is_told_by_the_others() -> None:
    much, size = 0.35, 24
    once = np.arange(WINDOWS) // 5 == 2
    draw = np.random.default_rng(7)
    noise = np.append(np.full(size - 1, NOISE), 2 * NOISE)
    layer = [series(draw.normal(0.0, each, WINDOWS) + much * once, 0.01 * place) for place, each in enumerate(noise)]
    alone = [bool(departs(one).any()) for one in levelled(layer)]
    assert not all(alone)
    assert all(departs(one).any() for one in levelled_together(layer, ["edge"] * size))


def test_a_member_that_rises_with_the_others_departs_however_far_apart_they_lie_by_themselves() -> None:
    apart = 0.3
    layer = members((0.45,) * 6 + (0.25,))
    *others, last = levelled_together(layer, ["edge"] * 7)
    assert all(one.judged(0.0, apart).departs.any() for one in others)
    assert (last.judged(0.0, apart).windows == SLOW).all(), "it was as fast as they, and is no longer"
    higher = levelled_together([*layer[:-1], series(layer[-1].values - 0.25 * SLOW + 0.25)], ["edge"] * 7)[-1]
    assert not higher.judged(0.0, apart).departs.any(), "it was always so"


def test_what_all_have_in_the_same_iteration_is_that_of_each_where_some_have_left_one_out() -> None:
    values = np.where(np.arange(WINDOWS) >= 10, 0.7, 0.0)
    whole = [series(values, 0.1 * place) for place in range(4)]
    fewer = replace(whole[1], **{
        name: np.delete(getattr(whole[1], name), 4) for name in ("values", "iterations", "begins_s", "spent_s")
    })  # fmt: skip
    several = [whole[0], fewer, *whole[2:]]
    common = shared_by(0.75, several, [0.0] * 4)
    assert common is not None and common.in_step
    assert common.series.iterations.tolist() == np.delete(np.arange(WINDOWS), 4).tolist()
    for each in several:
        assert common.of(each, common.series.values) == pytest.approx(each.values)


def test_what_all_have_at_the_same_time_is_that_of_each_at_its_own_pace() -> None:
    def paced(every_s: float, until_s: float) -> Series:
        begins_s = np.arange(0.0, until_s, every_s)
        values = np.where((begins_s >= 20) & (begins_s < 30), 0.7, 0.0)
        return replace(series(values), begins_s=begins_s, until_s=until_s)

    several = [paced(0.5, 60.0), paced(0.5, 60.0), paced(1.0, 60.0), paced(2.0, 40.0)]
    common = shared_by(0.75, several, [0.0] * 4)
    assert common is not None and not common.in_step
    assert common.series.until_s == 40.0, "later, one of them trained no more"
    for each in several:
        assert common.of(each, common.series.values) == pytest.approx(each.values)


def test_what_never_met_has_nothing_in_common() -> None:
    early, late = series(np.zeros(6)), series(np.zeros(6), 100.0)
    assert shared_by(0.75, [early, replace(late, iterations=late.iterations + 50)], [0.0] * 2) is None
