"""Hosts that are alike do not have the run's luck beside their own when it is drawn anew; unlike ones keep theirs."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

import numpy as np
import pytest
import virtual_world as vw
from test_resimulation import ran, world_of

from e2c_dl.diagnosis.resimulation.alike import by_other_luck
from e2c_dl.diagnosis.resimulation.hosts import MeasuredHost, MeasuredPace
from e2c_dl.trace.model import Phase
from e2c_dl.worlds.virtual import LinkModel
from e2c_dl.worlds.virtual.pace import Segment

SIZE, NOISE = 16, 0.15
SEEDS, MEASURED, LAPS = 20, 6, 4
KINDS = {f"host-{rank}": "board" for rank in range(SIZE)}


def took(name: str, lengths: Sequence[float], samples: int = 8) -> MeasuredHost:
    gradients = tuple((samples, (Segment(Phase.FORWARD, -1, 0, round(each)),)) for each in lengths)
    return MeasuredHost(name=name, layer="edge", samples=samples, gradients=gradients, steps_ns=(), evaluations_ns=())


def drawn(typical: Sequence[float], gradients: int = 20) -> list[MeasuredHost]:
    noise = np.random.default_rng(1).lognormal(0.0, NOISE, (len(typical), gradients))
    return [took(f"host-{rank}", each * noise[rank] * 1e6) for rank, each in enumerate(typical)]


def means_ns(hosts: Sequence[MeasuredHost]) -> np.ndarray:
    """What a gradient of each takes, in the mean, in other laps."""
    return np.array([np.mean([pieces[-1].end_ns for _, pieces in host.gradients]) * host.again for host in hosts])


def test_a_run_that_waits_for_the_last_of_many_alike_hosts_takes_as_long_as_by_other_seeds() -> None:
    def run(seed: int) -> vw.Run:
        links = vw.everywhere(SIZE, LinkModel(rate_bps=1e9, delay_s=0.001))  # who computes is waited for
        return ran("adpsgd", size=SIZE, seed=seed, noise=NOISE, links=links, factors=[1.0] * SIZE)

    runs = [run(seed) for seed in range(SEEDS)]
    worlds = [world_of(each, "adpsgd") for each in runs[:MEASURED]]
    fewer = [replace(each, hosts=by_other_luck(each.hosts, {})) for each in worlds]
    assert fewer[0].replayed_ns == worlds[0].replayed_ns, "the run's own luck stays"
    twice_s, once_s = (
        np.mean([each.run_ns(lap=lap) / 1e9 for each in of for lap in range(1, LAPS)]) for of in (worlds, fewer)
    )
    by_seeds_s = np.mean([each.end_s for each in runs])
    assert once_s == pytest.approx(by_seeds_s, rel=0.01)
    assert twice_s > 1.015 * by_seeds_s


def test_alike_hosts_are_nearer_to_each_other_and_unlike_ones_as_long_as_they_did() -> None:
    alike, unlike = drawn([1.0] * SIZE), drawn(np.linspace(1.0, 2.0, SIZE))
    assert np.ptp(means_ns(by_other_luck(alike, KINDS))) < 0.5 * np.ptp(means_ns(alike))
    assert means_ns(by_other_luck(unlike, KINDS)) == pytest.approx(means_ns(unlike), rel=0.02)


def test_who_departs_is_of_another_kind_or_has_few_peers_stays() -> None:
    hosts = drawn([1.0] * SIZE)
    departing = by_other_luck(hosts, KINDS, {"host-3"})
    assert [host.name for host in departing if host.again == 1.0] == ["host-3"]
    of_others = by_other_luck(hosts, KINDS | {f"host-{rank}": "server" for rank in range(3)})
    assert [host.name for host in of_others if host.again == 1.0] == ["host-0", "host-1", "host-2"]
    other_batch = by_other_luck([took("host-0", [1e6, 2e6], samples=16), *hosts[1:]], KINDS)
    assert [host.name for host in other_batch if host.again == 1.0] == ["host-0"]
    same = [took(f"host-{rank}", [1e6, 1e6]) for rank in range(SIZE)]
    assert by_other_luck(same, KINDS) == tuple(same)


def test_only_other_laps_are_by_other_luck() -> None:
    host = replace(took("host-0", [1000, 1000]), again=0.9)
    assert [MeasuredPace(host, seed=1, lap=lap).gradient(8, 0)[-1].end_ns for lap in (0, 1)] == [1000, 900]
