"""Measuring the links of many hosts, some far away: who is at work is waited for, and what all say can be told."""

from __future__ import annotations

import asyncio
import json
import time
from collections.abc import Awaitable, Callable
from types import SimpleNamespace
from typing import Any

import msgspec
import pytest
from test_host_control import NAMES, play

from e2c_dl.archive.records import ComputeFacts, HostFacts
from e2c_dl.drivers.live import measuring
from e2c_dl.drivers.live.control import WITHIN_S, Aborted, Control, largest_line_bytes
from e2c_dl.emulation.measuring.fidelity import LinkFidelity
from e2c_dl.emulation.measuring.measured import Measured
from e2c_dl.errors import FidelityError
from e2c_dl.topology import Link

PAIRS = [(src, dst) for src in NAMES for dst in NAMES if src != dst]
SEEN = Measured(
    rate_bps=49876543.21098765, rate_is_floor=False, round_trip_s=0.010123456789, round_trip_spread_s=0.000123456789,
    pings=21, loss=0.0, loss_samples=2000,
)  # fmt: skip


def assigned(rank: int, *, strict: bool = False) -> Any:
    """What measuring needs of an assignment."""
    return SimpleNamespace(
        own=SimpleNamespace(name=NAMES[rank], data_address="127.0.0.1", only_probe=False),
        scenario=SimpleNamespace(emulated_topology=lambda: SimpleNamespace(bottlenecks=())),
        records=SimpleNamespace(write_links=lambda rows: None), members=[SimpleNamespace(strict=strict)],
    )  # fmt: skip


def measuring_all(
    monkeypatch: pytest.MonkeyPatch, measured: Callable[..., Any], *, strict: bool = False
) -> Callable[[list[Control]], Awaitable[Any]]:
    monkeypatch.setattr(measuring, "used_links", lambda assignment: PAIRS)
    monkeypatch.setattr(measuring, "_measured", measured)

    async def scene(ranks: list[Control]) -> list[Any]:
        taught = [control.barrier(f"measured {number}") for number in range(100, 110) for control in ranks]
        await asyncio.gather(*taught)  # ten rounds that were over in no time
        return await asyncio.gather(*(
            measuring.measure(assigned(rank, strict=strict), control, lambda _: None)
            for rank, control in enumerate(ranks)
        ))  # fmt: skip

    return scene


def test_a_link_that_takes_longer_than_all_others_is_waited_for(monkeypatch: pytest.MonkeyPatch) -> None:
    late_s = 0.0

    def measured(assignment: Any, dst: str, ports: list[int]) -> Any:
        nonlocal late_s
        if (assignment.own.name, dst) == PAIRS[-1]:
            time.sleep(0.1)  # the others have come to the end of the round
            late_s += 10 * WITHIN_S
            time.sleep(0.1)
        return SimpleNamespace(to_json=dict, deviations=tuple, measured=None, dst=dst)

    measuring_them = measuring_all(monkeypatch, measured)

    async def scene(ranks: list[Control]) -> None:
        loop = asyncio.get_running_loop()
        clock = loop.time
        loop.time = lambda: clock() + late_s  # type: ignore[method-assign]
        assert [len(rows) for rows in await measuring_them(ranks)] == [2, 2, 2]

    play(scene, within_s=None)


def test_of_many_deviations_one_is_told_and_how_many_there_are(monkeypatch: pytest.MonkeyPatch) -> None:
    def measured(assignment: Any, dst: str, ports: list[int]) -> Any:
        sentence = f"{assignment.own.name} -> {dst}: slow"
        return SimpleNamespace(to_json=dict, deviations=lambda: [sentence] * 2, measured=None, dst=dst)

    async def scene(ranks: list[Control]) -> None:
        with pytest.raises(FidelityError, match=r"^not as requested: edge-1 -> \S+: slow and 11 more; run without"):
            await measuring_all(monkeypatch, measured, strict=True)(ranks)

    play(scene)


def test_what_rank_0_alone_needs_goes_nowhere_else() -> None:
    async def scene(ranks: list[Control]) -> None:
        collected = await asyncio.gather(*(control.collect("values", control.rank) for control in ranks))
        assert collected == [[0, 1, 2], [], []]

    play(scene)


@pytest.mark.parametrize("size", [2, 16, 96, 300])
def test_what_all_hosts_found_fits_into_a_line(size: int) -> None:
    facts = HostFacts(
        cpu_model="a processor", compute=ComputeFacts(trial_s=0.001234567, designed_s=0.0012, agreed_s=(0.001,) * 9),
        buffers={"at_start": {f"edge-trainer-{peer}": {"sent": 1 << 20} for peer in range(size)}},
    )  # fmt: skip
    rows = [
        LinkFidelity(
            src="a", dst=f"edge-trainer-{peer}", designed=Link(), requested=Link(), requested_round_trip_s=0.01,
            measured=SEEN,
        )
        for peer in range(size - 1)
    ]  # fmt: skip
    found = msgspec.to_builtins(measuring._Found.of(facts, rows))
    line = json.dumps({"op": "gathered", "name": "probed", "values": [found] * size})
    assert len(line) < largest_line_bytes(size)


def test_rank_0_hears_of_what_all_found(monkeypatch: pytest.MonkeyPatch) -> None:
    row = LinkFidelity(
        src="edge-1", dst="fog-1", designed=Link(), requested=Link(), requested_round_trip_s=0.01, measured=SEEN
    )
    facts = HostFacts(cpu_model="a processor", compute=ComputeFacts(trial_s=0.5, designed_s=0.25))
    told = json.loads(json.dumps([msgspec.to_builtins(measuring._Found.of(facts, [row]))]))
    heard: list[Any] = []
    monkeypatch.setattr(measuring.Probe, "of", lambda *all: heard.append(all[1:]))
    measuring._probed(SimpleNamespace(members=[SimpleNamespace(name="edge-1")], scenario=None), told)  # type: ignore[arg-type]
    assert heard == [({"edge-1": facts}, {("edge-1", "fog-1"): SEEN})]


def test_a_rank_that_does_not_come_still_ends_the_others() -> None:
    async def scene(ranks: list[Control]) -> None:
        with pytest.raises(Aborted, match="did not come to 'values' within 0 s"):
            await ranks[1].collect("values", 1, 0.01)

    play(scene)
