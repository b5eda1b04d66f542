"""Setting up, as it is told: turns at calibrating, who has come to a gathering, and what a console shows of it."""

from __future__ import annotations

import asyncio
import io
import json
from pathlib import Path

import pytest
from loopback import free_port
from rich.console import Console as Terminal

from e2c_dl.archive.host_records import HostRecords, parsed_report
from e2c_dl.archive.records import Doing, Progress
from e2c_dl.cli.telling import console as consoles
from e2c_dl.cli.telling.console import LiveConsole, PlainConsole, QuietConsole
from e2c_dl.drivers.live.calibrating import in_turns
from e2c_dl.drivers.live.control import Control
from e2c_dl.drivers.live.coordinator import Coordinator
from e2c_dl.drivers.live.progress import SetupLog
from e2c_dl.testbeds.e2clab.experiment import Tasks

NAMES = ("edge-1", "fog-1", "cloud-1")
KEY = bytes(range(32))


@pytest.mark.parametrize(
    ("where", "turns"),
    [
        ([("a", 2)] * 5, [0, 0, 1, 1, 2]),
        ([("a", 1), ("b", 1), ("a", 1), ("b", 1)], [0, 0, 1, 1]),
        ([("a", 8), ("a", 2), ("a", 2), ("c", 4)], [0, 0, 1, 0]),  # one of them may use two cores only
        ([("a", 4)], [0]),
    ],
)
def test_ranks_of_a_machine_calibrate_as_many_at_once_as_it_has_cores(
    where: list[tuple[str, int]], turns: list[int]
) -> None:
    assert in_turns(where) == turns


def test_the_coordinator_tells_who_has_come() -> None:
    told: list[Doing] = []

    async def scene() -> None:
        port = free_port()
        coordinator = Coordinator(NAMES, KEY, told.append)
        await coordinator.listen("127.0.0.1", port)
        ranks = [await Control.join("127.0.0.1", port, rank=rank, names=NAMES, key=KEY) for rank in range(3)]
        await asyncio.gather(*(each.gather("imported", None) for each in ranks))
        await asyncio.gather(*(each.gather("of no interest", None) for each in ranks))
        for control in ranks:
            control.close()
        await coordinator.close()

    asyncio.run(scene())
    assert [each.done for each in told if each.what == "workers joining"] == [1, 2, 3]
    imported = [each for each in told if each.what.startswith("importing torch")]
    assert [(each.done, each.of, len(each.waiting)) for each in imported] == [(1, 3, 2), (2, 3, 1), (3, 3, 0)]
    assert len(told) == 6


def test_doing_is_one_line() -> None:
    assert Doing(what="importing E2Clab").described() == "importing E2Clab"
    assert Doing(what="measuring links", done=7, of=12).described() == "measuring links: 7 of 12"
    two = Doing(what="calibrating", done=4, of=6, waiting=("fog-1", "fog-2"))
    assert two.described() == "calibrating: 4 of 6, waiting for fog-1, fog-2"
    many = Doing(what="calibrating", done=1, of=6, waiting=("a", "b", "c", "d", "e"))
    assert many.described() == "calibrating: 1 of 6, waiting for a, b, c and 2 more"
    assert Doing(what="calibrating", done=0, of=2, waiting=("a", "b")).described() == "calibrating: 0 of 2"


def test_what_rank_0_writes_is_what_a_follower_reads(tmp_path: Path) -> None:
    doing = Doing(what="measuring links", done=3, of=6, waiting=("fog-1",))
    records = HostRecords(tmp_path)
    log = SetupLog(records)
    log.tell(doing)
    log.close()
    assert [parsed_report(line) for line in records.setup_file.read_text().splitlines()] == [doing]
    row = {"iteration": 1, "iterations": 9, "loss": 0.5, "elapsed_s": 1.0, "remaining_s": 8.0}
    assert isinstance(parsed_report(json.dumps(row)), Progress)


def test_tasks_count_the_hosts_that_have_begun_them() -> None:
    told: list[str] = []
    tasks = Tasks(lambda doing: told.append(doing.described()))
    tasks.begin("The scenario goes to every host")
    for host in NAMES:
        tasks.started(host)
    for host in reversed(NAMES):
        tasks.ended(host)
    tasks.begin("Next")
    assert told == [
        "The scenario goes to every host",
        "The scenario goes to every host: 1 of 3, waiting for edge-1, fog-1",
        "The scenario goes to every host: 2 of 3, waiting for edge-1",
        "The scenario goes to every host: 3 of 3",
        "Next",
    ]


def test_a_plain_console_has_a_line_per_part_and_not_one_per_link(monkeypatch: pytest.MonkeyPatch) -> None:
    now_s = 100.0
    monkeypatch.setattr(consoles.time, "monotonic", lambda: now_s)
    said = io.StringIO()
    console = PlainConsole(Terminal(file=said, width=100))
    console.step("train", "starting workers")
    for done in range(300):
        now_s += 0.01
        console.doing(Doing(what="measuring links", done=done, of=300))
    console.doing(Doing(what="connecting workers"))
    assert said.getvalue().splitlines() == [
        "train     starting workers",
        "train     measuring links: 0 of 300",
        "train     measuring links: 100 of 300",
        "train     measuring links: 200 of 300",
        "train     connecting workers",
    ]
    silent = io.StringIO()
    QuietConsole(Terminal(file=silent)).doing(Doing(what="measuring links"))
    assert silent.getvalue() == ""


def test_a_live_console_shows_what_is_under_way() -> None:
    said = io.StringIO()
    console = LiveConsole(Terminal(file=said, force_terminal=True, width=100))
    console.step("train", "starting workers")
    console.doing(Doing(what="importing torch"))
    console.doing(Doing(what="measuring links", done=7, of=12))
    console.done("train", 1.0)
    shown = said.getvalue()
    assert "measuring links: 7 of 12" in shown
    assert "starting workers" in shown.rpartition("✓")[2]
