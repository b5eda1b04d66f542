"""Peers that are in layers: a layer may be slower as a whole, though none of its hosts shows it alone."""

from __future__ import annotations

import pytest

from e2c_dl.diagnosis.detection.peers import peers, peers_by_layers

LAYERS = ["edge", "edge", "fog", "fog", "cloud", "cloud"]
ERROR = 0.033


def test_a_layer_that_is_slower_as_a_whole_is_no_peer_of_the_others() -> None:
    levels, errors = [-0.03, 0.0, 0.131, 0.127, -0.041, -0.002], [ERROR] * 6
    assert peers(levels, errors).fastest == (0, 1, 2, 3, 4, 5), "no gap between two hosts is wide enough"
    found = peers_by_layers(levels, errors, LAYERS)
    assert (found.fastest, found.count, found.settled) == ((0, 1, 4, 5), 6, True)
    assert found.reference == pytest.approx(-0.016)
    assert found.apart < 0.127 - found.reference


@pytest.mark.parametrize(
    "levels",
    [
        [0.0, 0.01, 0.06, 0.07, -0.01, 0.0],  # less than models and machines differ by
        [0.10, -0.05, 0.22, 0.03, -0.10, 0.06],  # a layer's hosts are as far apart by themselves
        [0.0, 0.01, 0.5, 0.02, -0.01, 0.0],  # one is slow by itself
    ],
)
def test_layers_that_are_not_apart_tell_nothing_more(levels: list[float]) -> None:
    assert peers_by_layers(levels, [ERROR] * 6, LAYERS) == peers(levels, [ERROR] * 6)


def test_one_layer_has_no_other_to_be_held_against() -> None:
    levels, errors = [0.0, 0.1, 0.05], [ERROR] * 3
    assert peers_by_layers(levels, errors, ["edge"] * 3) == peers(levels, errors)


def test_one_that_is_hardly_known_does_not_draw_a_slow_one_into_the_group() -> None:
    errors = [0.037, 0.018, 0.018]  # the first is slow by turns, which leaves it more noise
    found = peers([0.047, 0.17, 0.0], errors)
    assert (found.fastest, found.reference) == ((0, 2), pytest.approx(0.0235))
    assert found.apart < 0.17 - found.reference
    assert peers([0.047, 0.13, 0.0], errors).fastest == (0, 1, 2), "no further than comparable ones are"
    assert peers([0.0, 0.13, 0.26, 0.39], [0.2, 0.2, 0.2, 0.2]).fastest == (0, 1, 2, 3), "all of them are hardly known"
