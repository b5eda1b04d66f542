"""Where ranks go at their own pace, a run is watched by the time at which each did what, not by their numbers."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import continued
import pytest
import virtual_world as vw
from test_watch import LAYERS, culprits, run  # noqa: F401  # a fixture among them

from e2c_dl.archive import layout
from e2c_dl.archive.host_records import HostRecords
from e2c_dl.archive.records import ComputeFacts, HostFacts
from e2c_dl.campaign.watch.watch import Watch
from e2c_dl.report import live
from e2c_dl.scenario.schedule import Schedule
from e2c_dl.strategies.asyncparameterserver import AsyncParameterServer
from e2c_dl.testbeds.registry import RegisteredRun
from e2c_dl.trace.model import Phase
from e2c_dl.worlds.virtual import LinkModel

LAST = 12
FACTORS = (1.0, 1.0, 1.0, 4.0)
SLOWER_S = 3.0


@pytest.fixture(scope="module")
def trained() -> vw.Run:
    """Edge-4 is four times slower all the time, edge-2 three times from second SLOWER_S on."""
    made = vw.hosts(4, factors=FACTORS, of=vw.profile((5_000, 2_000), per_sample_s=5e-3), noise=0.02)
    from_then = Schedule(points=((0.0, 1.0), (SLOWER_S, 3.0)))
    slower = replace(made[1], slower={Phase.FORWARD: from_then, Phase.BACKWARD: from_then})
    links = vw.everywhere(4, LinkModel(rate_bps=40e6, delay_s=0.002))
    return vw.run(AsyncParameterServer, size=4, on_hosts=(made[0], slower, *made[2:]), links=links, iterations=80)


def write(run: RegisteredRun, trained: vw.Run, until_s: float) -> None:  # noqa: F811
    """What every host has written when the second ``until_s`` is over."""
    layers = LAYERS.replace("allreduce", "asyncparameterserver")
    (Path(run.archive) / layout.SCENARIO / "layers_services.yaml").write_text(layers)
    for rank in trained.trace.ranks:
        path = Path(run.directory / rank.host)
        (path / layout.SPANS_RAW).write_bytes(continued.until_ns(rank, round(until_s * 1e9)))
        HostRecords(path).write_clock(rank.clock)
        HostRecords(path).write_facts(HostFacts(cpu_model="one", cores=1, compute=ComputeFacts()))


def test_what_a_rank_serves_behind_its_own_last_iteration_is_judged(run: RegisteredRun, trained: vw.Run) -> None:  # noqa: F811
    """Edge-1, the server, has done all of its own by then, and so have others."""
    ended_s = [int(rank.of(Phase.ITERATION)["end_ns"].max()) / 1e9 for rank in trained.trace.ranks]
    until_s = ended_s[0] + 4.5
    assert max(ended_s) > until_s > sorted(ended_s)[2]
    write(run, trained, until_s)
    with Watch(run, last=LAST) as watch:
        now = watch.look()
    assert now is not None and now.diagnosis is not None, now and now.not_yet
    report = now.diagnosis.report
    served = {f"{link.src} -> {link.dst}": link.messages for link in report.links}
    assert min(served["edge-4 -> edge-1"], served["edge-1 -> edge-4"]) >= LAST - 2
    assert "edge-4" in culprits(now)


def test_hosts_are_judged_by_the_same_seconds(run: RegisteredRun, trained: vw.Run) -> None:  # noqa: F811
    write(run, trained, 1.0)
    with Watch(run, last=LAST) as watch:
        seen = {}
        for tenth in range(15, 41):
            write(run, trained, tenth / 10)
            seen[tenth / 10] = watch.look()
    early, late = (seen[at_s] for at_s in (2.9, 4.0))
    assert culprits(early) == ["edge-4"]
    assert sorted(culprits(late)) == ["edge-2", "edge-4"]
    named_s = min(at_s for at_s, now in seen.items() if now is not None and "edge-2" in culprits(now))
    assert SLOWER_S < named_s <= SLOWER_S + 0.9  # its fifth slow iteration, far behind which edge-4 is in numbers
    assert late is not None and late.diagnosis is not None
    report = late.diagnosis.report
    assert report.run_s < 12 * 0.3
    carried = {f"{link.src} -> {link.dst}" for link in report.links}
    assert {"edge-1 -> edge-4", "edge-4 -> edge-1"} <= carried
    (slow,) = (each for each in report.culprits if str(each.element) == "edge-2")
    own = trained.trace.ranks[1].of(Phase.ITERATION)
    first = int(own["iteration"][own["start_ns"] >= SLOWER_S * 1e9].min())
    assert slow.when.onset_iteration == pytest.approx(first, abs=1)
    assert ", each at its own pace. What slowed these iterations down: " in live.headline(late)
