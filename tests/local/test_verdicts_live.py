"""Verdicts live: what ranks append to their traces is judged by a process of its own, and all ranks are told."""

from __future__ import annotations

import asyncio
import shutil
from collections.abc import Callable
from pathlib import Path

import pytest
from loopback import free_port
from routed_run import LINK, SLOWER, WELL_S, framed, scenario, simulated

from e2c_dl.archive import layout
from e2c_dl.drivers.live.control import Control
from e2c_dl.drivers.live.coordinator import Coordinator
from e2c_dl.drivers.live.members import Assignment, Member
from e2c_dl.drivers.live.verdicts.hearing import Hearing
from e2c_dl.emulation.backend import Backend
from e2c_dl.errors import TrainingError
from e2c_dl.strategies.adpsgd import ADPSGD
from e2c_dl.strategies.base import Verdict
from e2c_dl.trace.model import ClockAlignment, Spans
from e2c_dl.trace.recording import span_log

KEY = bytes(range(32))
WITHIN_S = 60.0


@pytest.fixture(scope="module")
def traced(tmp_path_factory: pytest.TempPathFactory) -> list[Spans]:
    return simulated(scenario(), tmp_path_factory.mktemp("simulated"))


def assignments(folder: Path, traced: list[Spans]) -> list[Assignment]:
    """Of all ranks; each has traced what it did until a little before the link is well again."""
    routing = scenario()
    members = tuple(
        Member(host=host, address="127.0.0.1", data_address="127.0.0.1", backend=Backend.RELAY, speed=0.02)
        for host in routing.topology.ranks
    )
    found = [
        Assignment(run_dir=folder / str(rank), scenario=routing, members=members, rank=rank)
        for rank in range(len(members))
    ]
    for each, spans in zip(found, traced, strict=True):
        shutil.copytree(routing.path, each.run_dir / layout.SCENARIO)
        until = spans[spans["end_ns"] <= (WELL_S - 1) * 1e9]
        each.records.spans.write_bytes(span_log.opening(each.rank, each.own.name, each.own.host.layer) + framed(until))
        each.records.write_clock(ClockAlignment())
    return found


class Ranks:
    """All ranks of a run in one event loop, connected as live; ``heard``: by rank, what each was told."""

    def __init__(self, of: list[Assignment]) -> None:
        self._of = of
        self._all_heard = asyncio.Event()
        self.heard: list[list[Verdict]] = [[] for _ in of]

    async def train(self, *, until_heard: bool) -> None:
        """Each tells what it has traced, and trains until all were told something; else for ever, without a judge."""
        names = [member.name for member in self._of[0].members]
        coordinator, port = Coordinator(names, KEY), free_port()
        await coordinator.listen("127.0.0.1", port)
        controls = [await Control.join("127.0.0.1", port, rank=each.rank, names=names, key=KEY) for each in self._of]
        strategy = ADPSGD(route_around=True)
        hearings = [
            await Hearing.start(each, control, strategy) for each, control in zip(self._of, controls, strict=True)
        ]

        async def trained() -> None:
            if not until_heard:
                await hearings[0].end()
            await self._all_heard.wait()

        try:
            ranks = (hearing.watched(trained(), self._teller(rank)) for rank, hearing in enumerate(hearings))
            await asyncio.wait_for(asyncio.gather(*ranks), WITHIN_S)
        finally:
            for hearing in hearings:
                await hearing.end()
            for control in controls:
                control.close()
            await coordinator.close()

    def _teller(self, rank: int) -> Callable[[Verdict], None]:
        def tell(verdict: Verdict) -> None:
            self.heard[rank].append(verdict)
            if all(self.heard):
                self._all_heard.set()

        return tell


def test_all_ranks_hear_of_the_slow_link(traced: list[Spans], tmp_path: Path) -> None:
    of = assignments(tmp_path, traced)
    ranks = Ranks(of)
    asyncio.run(ranks.train(until_heard=True))
    assert [[slow.ranks for slow in each[0].slow] for each in ranks.heard] == [[LINK]] * 4
    assert ranks.heard[0][0].factor(*LINK) == pytest.approx(SLOWER, rel=0.2)
    assert of[0].records.verdicts_file.read_text().count("\n") >= 1


def test_training_does_not_go_on_without_its_judge(traced: list[Spans], tmp_path: Path) -> None:
    with pytest.raises(TrainingError, match=r"the judge has ended.*worker\.log"):
        asyncio.run(Ranks(assignments(tmp_path, traced)).train(until_heard=False))
