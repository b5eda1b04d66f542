"""Changes in place: nothing that waits is lost, no connection notices; and what EnOSlib's commands do instead."""

from __future__ import annotations

from typing import Any

import pytest
from machine_runs import measured

from e2c_dl.topology import Link

ADDRESSES = {"h2": "198.19.0.2", "h3": "198.19.0.3"}


@pytest.fixture(scope="module")
def said() -> dict[str, Any]:
    return measured("changed_under_load", "table_of_delays", "transfer")


def test_a_full_queue_leaves_at_the_new_rate_within_100_ms_and_nothing_of_it_is_lost(said: dict[str, Any]) -> None:
    changed = said["changed_under_load"]
    assert changed["before"] > 0  # it changed while the queue was full
    assert changed["loss"] == 0
    # The machine takes up to 50 ms to start tc, a few frames show the new rate; its time slices are shared.
    assert changed["in_force_s"] < 0.1 + changed["command_s"]
    assert changed["rate_bps"] == pytest.approx(2e6, rel=0.06)


def test_a_connection_lives_through_changes_and_a_cut(said: dict[str, Any]) -> None:
    transfer, payload = said["transfer"], 1448 / 1514
    assert transfer["fast_bps"] == pytest.approx(16e6 * payload, rel=0.2)
    assert transfer["slow_bps"] == pytest.approx(4e6 * payload, rel=0.1)
    assert (transfer["drops"], transfer["retransmitted"]) == (0, 0)
    assert transfer["cut_bytes"] == 0
    assert transfer["again_bps"] > 4e6


def test_netem_keeps_its_table_of_delays_which_is_why_a_distribution_cannot_change(said: dict[str, Any]) -> None:
    assert said["table_of_delays"]["furthest_s"] > 0.005  # uniform: at most 4 ms


def test_enoslibs_rules_agree_for_one_link_wipe_each_other_and_overflow() -> None:
    pytest.importorskip("enoslib")
    from benchmarks.uml.enoslib_commands import lines

    plain = Link(rate_bps=8e6, delay_s=0.02)
    rules = {
        "one": lines({("h1", "h2"): plain}, ADDRESSES, "eth1"),
        "two": lines({("h1", "h3"): Link(rate_bps=2e6)}, ADDRESSES, "eth1"),
        "long": lines({("h1", "h2"): Link(rate_bps=200e6, delay_s=2.5)}, ADDRESSES, "eth1"),
    }
    said = measured("enoslib", enoslib={name: line["h1"] for name, line in rules.items()})["enoslib"]
    assert said["one"]["h2"]["rate_bps"] == pytest.approx(8e6, rel=0.06)
    assert said["one"]["h2"]["least_s"] == pytest.approx(0.02, abs=0.0005)
    assert said["two"]["h3"]["rate_bps"] == pytest.approx(2e6, rel=0.1)
    assert said["two"]["h2"]["least_s"] < 0.01  # the second rule wiped the first
    assert said["long"]["h2"]["loss"] > 0.3  # 1000 frames and no more are under way
