"""This project's tc commands with a real netem: what a link asks for is what its datagrams meet."""

from __future__ import annotations

from typing import Any

import pytest
from machine_runs import measured

WITHIN = 0.06  # of a rate: the machine is slow, and shared


@pytest.fixture(scope="module")
def said() -> dict[str, Any]:
    return measured("links", "neighbours", "bottlenecks")


@pytest.fixture
def links(said: dict[str, Any]) -> dict[str, Any]:
    found: dict[str, Any] = said["links"]
    return found


def test_rates_are_those_of_frames_also_behind_a_delay_and_in_each_direction(links: dict[str, Any]) -> None:
    assert links["rate"]["rate_bps"] == pytest.approx(8e6, rel=WITHIN)
    assert links["rate and delay"]["rate_bps"] == pytest.approx(8e6, rel=WITHIN)
    assert links["rate and delay"]["least_s"] == pytest.approx(0.03, abs=0.001)
    assert links["back"]["rate_bps"] == pytest.approx(2e6, rel=WITHIN)


def test_a_delay_is_one_way(links: dict[str, Any]) -> None:
    assert links["delay"]["least_s"] == pytest.approx(0.02, abs=0.0002)
    assert links["delay"]["median_s"] == pytest.approx(0.02, abs=0.002)


def test_jitter_is_spread_as_its_distribution_says(links: dict[str, Any]) -> None:
    quartiles_ms = {  # of the delays, in units of 4 ms around 20 ms: +-0.5, +-0.674, and -0.461, 0.101
        "uniform": (18.0, 20.0, 22.0),
        "normal": (17.3, 20.0, 22.7),
        "pareto": (18.16, 19.04, 20.4),
    }
    for name, expected in quartiles_ms.items():
        found = [quartile_s * 1e3 for quartile_s in links[name]["quartiles_s"]]
        assert found == pytest.approx(expected, abs=0.9), name
        assert links[name]["overtakers"] > 0.1, name
    assert links["uniform"]["least_s"] >= 0.016
    assert links["normal"]["least_s"] < 0.0145
    assert links["pareto"]["least_s"] > 0.0175


def test_losses_come_alone_or_in_bursts(links: dict[str, Any]) -> None:
    # Binomial 99.99 %: +-0.0055; of bursts 10000 datagrams hold about 96, each of 4 in the mean.
    assert links["loss"]["loss"] == pytest.approx(0.02, abs=0.0055)
    assert links["loss"]["mean_run"] < 1.1
    assert links["burst"]["loss"] == pytest.approx(0.01 / 0.26, abs=0.02)
    assert links["burst"]["mean_run"] == pytest.approx(4, abs=1.6)


def test_what_is_reordered_has_no_delay_and_overtakes(links: dict[str, Any]) -> None:
    assert links["reorder"]["overtakers"] == pytest.approx(0.05, abs=0.02)
    assert links["reorder"]["least_s"] < 0.005
    assert links["reorder"]["median_s"] == pytest.approx(0.02, abs=0.002)


def test_a_queue_holds_what_was_asked_beside_what_is_under_way(links: dict[str, Any]) -> None:
    # 50 frames wait, 20 are under way; while 300 are sent, some leave.
    assert 0.4 < links["queue"]["loss"] < 1 - 70 / 300 + 0.01
    assert links["long"]["loss"] == 0


def test_a_link_that_is_down_carries_nothing(links: dict[str, Any]) -> None:
    assert links["down"]["loss"] == 1


def test_neighbours_are_found_over_a_link_that_loses_everything_and_others_are_not_shaped(said: dict[str, Any]) -> None:
    assert said["neighbours"]["found"]
    assert said["neighbours"]["lost"] == 1
    assert said["neighbours"]["unmatched"]["loss"] == 0
    assert said["neighbours"]["unmatched"]["least_s"] < 0.005


@pytest.mark.parametrize("name", ["leaving", "arriving"])
def test_links_share_a_bottleneck_where_they_begin_or_where_they_end(said: dict[str, Any], name: str) -> None:
    shared = said["bottlenecks"]
    assert shared[name]["rate_bps"] == pytest.approx(6e6, rel=WITHIN)
    assert shared[f"{name} changed"]["rate_bps"] == pytest.approx(3e6, rel=WITHIN)
    assert 0.4 < shared[name]["share"] < 0.6


def test_a_link_in_a_bottleneck_is_held_to_its_own_rate(said: dict[str, Any]) -> None:
    assert said["bottlenecks"]["alone"]["rate_bps"] == pytest.approx(4e6, rel=WITHIN)
