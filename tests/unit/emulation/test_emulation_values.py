"""The values of emulation: compute plans."""

from __future__ import annotations

import pytest

from e2c_dl.emulation.compute import HEADROOM, RELAY_CORES, Method, plan
from e2c_dl.errors import EmulationError


def test_compute_takes_quota_where_every_host_can_have_its_core() -> None:
    chosen = plan(4, {"a": 1.0, "b": 2.0, "c": 1.0}, "auto", None)
    assert (chosen.method, chosen.oversubscribed) == (Method.QUOTA, False)
    assert dict(chosen.cores) == {"a": 1.0, "b": 0.5 * HEADROOM, "c": 1.0}
    assert dict(chosen.speed) == {"b": 0.5}  # paced within its quota; a whole core is what it is


def test_compute_sleeps_where_cores_are_short_and_never_asks_for_more_than_there_are() -> None:
    factors = {f"h{i}": 1.0 for i in range(5)} | {"slow": 3.0}
    chosen = plan(2, factors, "auto", None)
    assert (chosen.method, chosen.oversubscribed, dict(chosen.cores)) == (Method.SLEEP, False, {})
    assert chosen.speed["h0"] == pytest.approx(1.5 / 6)
    assert chosen.speed["h0"] / chosen.speed["slow"] == pytest.approx(3.0)
    assert sum(chosen.speed.values()) + RELAY_CORES <= 2


def test_compute_by_asked_cores() -> None:
    factors = dict.fromkeys("abcdef", 1.0)
    assert plan(2, factors, "auto", 0.25).method is Method.QUOTA
    assert plan(2, factors, "auto", 0.26).method is Method.SLEEP
    assert plan(2, factors, "quota", 0.5).oversubscribed
    assert dict(plan(2, factors, "quota", 0.5).cores) == dict.fromkeys(factors, 0.5 * HEADROOM)
    assert dict(plan(2, factors, "quota", 0.9).cores) == dict.fromkeys(factors, 1.0)
    as_much = plan(2, factors, "quota", None)
    assert not as_much.oversubscribed
    assert sum(as_much.speed.values()) == pytest.approx(1.5)
    assert plan(2, factors, "sleep", 0.1).speed["a"] == pytest.approx(0.1)


@pytest.mark.parametrize(
    ("cores", "factor", "method", "said"),
    [(0.5, 1.0, "auto", "larger machine"), (2, 0.0, "auto", "a has factor 0"), (2, 1.0, "cgroup", "unknown method")],
)
def test_compute_refuses_what_cannot_be(cores: float, factor: float, method: str, said: str) -> None:
    with pytest.raises(EmulationError, match=said):
        plan(cores, {"a": factor}, method, None)
