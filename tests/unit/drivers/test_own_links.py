"""Under plain E2Clab workers put their links in force by themselves, all by the same back end."""

from __future__ import annotations

import asyncio
import json
import os
from contextlib import AsyncExitStack
from pathlib import Path
from typing import Any

import pytest
from simulated_scenario import scenario

from e2c_dl.drivers.live import members
from e2c_dl.drivers.live.beside import own_links
from e2c_dl.drivers.live.changes import HostChanges
from e2c_dl.emulation.agent.links import links_of
from e2c_dl.emulation.backend import Backend
from e2c_dl.emulation.tc import on_host
from e2c_dl.errors import EmulationError
from e2c_dl.testbeds.machines import host_side

EMULATION = {"compute": {"method": "sleep", "cores": 0.5, "factors": {"edge.*": 2}}}
IDS = ("1_1_1", "1_1_2", "2_1_1")


class Others:
    """The control connection of a rank whose peers answer ``said``."""

    def __init__(self, said: str) -> None:
        self.said = said

    async def gather(self, name: str, value: str, within_s: float | None = None) -> list[str]:
        return [value, self.said, self.said]

    async def barrier(self, name: str, within_s: float | None = None) -> None: ...


@pytest.fixture
def assignment(tmp_path: Path) -> members.Assignment:
    scenario(tmp_path / "scenario", emulation=EMULATION)
    rows = [
        {"_id": each, "address": f"host-{each}", "data_address": f"198.19.0.{number}", "data_device": "eno1",
         "own_emulation": True, "versions": {"e2clab": "3.7.0"}}
        for number, each in enumerate(IDS, 10)
    ]  # fmt: skip
    (tmp_path / "members.json").write_text(json.dumps(rows))
    return members.read(tmp_path, "1_1_1")


@pytest.fixture
def ran(monkeypatch: pytest.MonkeyPatch) -> list[Any]:
    """What was asked of tc, on a host of root's whose kernel has all."""
    asked: list[Any] = []
    monkeypatch.setattr(os, "getuid", lambda: 0)
    monkeypatch.setattr(host_side, "qdisc_problem", lambda kind: None)
    monkeypatch.setattr(on_host, "put_in_force", lambda device, commands: asked.append((device, commands)))
    monkeypatch.setattr(on_host, "clear", lambda device: asked.append((device, ())))
    return asked


def put(assignment: members.Assignment, others: str) -> tuple[members.Assignment, Any]:
    async def within() -> tuple[members.Assignment, Any]:
        async with AsyncExitStack() as resources:
            return await own_links.put_in_force(assignment, Others(others), resources)  # type: ignore[arg-type]

    return asyncio.run(within())


def test_the_whole_topology_is_in_force_while_it_trains(assignment, ran) -> None:
    after, deployed = put(assignment, "tc")
    (device, commands), (cleared, nothing) = ran
    text = "\n".join(" ".join(command) for command in commands)
    assert device == cleared == "eno1" and nothing == ()
    assert "dst 198.19.0.11/32" in text and "dst 198.19.0.12/32" in text and "delay 5000us" in text
    assert {member.backend for member in after.members} == {Backend.TC}  # for the agent, which changes them
    assert (deployed.backend, deployed.why, deployed.failure) == ("tc", "", "")


def test_where_one_kernel_has_no_netem_all_do_without(assignment, ran) -> None:
    after, deployed = put(assignment, "htb")
    assert "netem" not in str(ran[0]) and "rate 50000000bit" in "\n".join(" ".join(each) for each in ran[0][1])
    assert after.own.backend is Backend.HTB and deployed.why == ""


def test_where_one_can_do_nothing_nobody_touches_what_e2clab_applied(assignment, ran) -> None:
    _, deployed = put(assignment, "none")
    assert ran == [] and deployed.backend == "none"


def test_why_links_are_not_in_force_is_on_record(assignment, ran, monkeypatch) -> None:
    def refuse(device: str, commands: Any) -> None:
        raise EmulationError("tc qdisc replace: no")

    monkeypatch.setattr(on_host, "put_in_force", refuse)
    after, deployed = put(assignment, "tc")
    assert (deployed.backend, deployed.failure) == ("tc", "tc qdisc replace: no")
    assert [each.backend for each in after.members] == [Backend.NONE, Backend.TC, Backend.TC]
    topology = after.scenario.emulated_topology()
    links, how = links_of(HostChanges(after)._config(), topology)  # its agent goes on, and training with it
    assert how.startswith("not at all") and links.apply(topology.links, {}) is None


@pytest.mark.parametrize(
    ("uid", "missing", "can", "why"),
    [
        (1000, (), Backend.NONE, "its worker is not root there"),
        (0, ("htb", "netem"), Backend.NONE, "its kernel has no HTB (unknown)"),
        (0, ("netem",), Backend.HTB, "its kernel has no netem (unknown)"),
        (0, (), Backend.TC, ""),
    ],
)
def test_what_a_host_can_do_and_why_not_more(ran, monkeypatch, uid, missing, can, why) -> None:
    monkeypatch.setattr(os, "getuid", lambda: uid)
    monkeypatch.setattr(host_side, "qdisc_problem", lambda kind: "unknown" if kind in missing else None)
    assert own_links.able("eno1") == (can, why)
    assert own_links.able(None) == (Backend.NONE, "nobody said which device carries training")


def test_speeds_are_by_the_scenario_where_nobody_tells_them(assignment) -> None:
    assert [member.speed for member in assignment.members] == [0.25, 0.25, 0.5]


def test_where_a_testbed_emulates_nothing_is_done(tmp_path, assignment, ran) -> None:
    rows = [row | {"own_emulation": False, "speed": 0.7} for row in json.loads((tmp_path / "members.json").read_text())]
    (tmp_path / "members.json").write_text(json.dumps(rows))
    told = members.read(tmp_path, "1_1_1")
    assert put(told, "tc") == (told, None) and ran == []
    assert told.own.speed == 0.7
