"""The verbs of the virtual worker: what they return, what they cost, what they refuse."""

from __future__ import annotations

import asyncio
import subprocess
import sys
from pathlib import Path

import live_world
import numpy as np
import pytest
import virtual_world
from virtual_world import scripted

from e2c_dl.errors import PeerLost, TrainingError
from e2c_dl.strategies.allreduce import Allreduce
from e2c_dl.strategies.base import Message, Sparse, Worker
from e2c_dl.trace.model import Phase
from e2c_dl.worlds.virtual import LinkModel, SimulatedIteration
from e2c_dl.worlds.virtual.links import MESSAGE_HEADER_BYTES

DELAYED = virtual_world.everywhere(3, LinkModel(delay_s=0.01))


def linear(size: int, length: int = 8) -> list[live_world.Linear]:
    start = np.arange(length, dtype=np.float32)
    return [live_world.Linear(start, [slice(4, 8), slice(0, 4)], lambda i, w: w + i, 0.1) for _ in range(size)]


async def nothing(worker: Worker) -> None:
    """Returns."""


def test_messages_are_found_by_key_and_by_kind_in_order_of_arrival() -> None:
    got: list[object] = []

    async def script(worker: Worker) -> None:
        if worker.rank == 0:
            for step in range(4):
                worker.send(1, Message(kind="a", step=step))
            worker.send(1, Message(kind="b"))
            return
        if worker.rank != 1:
            return
        got.append((await worker.receive("a", src=0, step=2)).step)
        message = await worker.receive_any("a", sources=[2, 0])
        got.append(message and (message.step, message.src))
        await worker.receive("b", src=0)
        got.append([message.step for message in worker.arrived("a")])
        got.append(await worker.receive_any("a", timeout_s=0.5))
        got.append(worker.arrived("a"))

    run = virtual_world.run(scripted(script), size=3, links=DELAYED)
    assert got == [2, (0, 0), [1, 3], None, []]
    assert run.result.end_ns == 510_000_000
    assert run.spans(1, Phase.AWAIT_MESSAGE)["seq"].tolist() == [2, 0, 4, 1, 3]


def test_a_receive_that_timed_out_swallows_no_message() -> None:
    async def script(worker: Worker) -> None:
        if worker.rank == 0:
            worker.send(1, Message(kind="late"))
        elif worker.rank == 1:
            assert await worker.receive_any("late", timeout_s=0.009) is None
            assert await worker.receive_any("late", timeout_s=1.0) is not None

    assert virtual_world.run(scripted(script), size=3, links=DELAYED).result.end_ns == 10_000_000


def test_payloads_are_copies_and_stay_with_their_receivers() -> None:
    got: list[float] = []

    async def script(worker: Worker) -> None:
        vector = np.ones(4, dtype=np.float32)
        if worker.rank == 0:
            await worker.send(1, Message(kind="a", payload=vector))
            vector[:] = 2  # it has left
        elif worker.rank == 1:
            got.extend((await worker.receive("a", src=0)).vector)

    virtual_world.run(scripted(script), size=3, links=DELAYED, computes=linear(3))
    assert got == [1, 1, 1, 1]


@pytest.mark.parametrize("real", [True, False])
def test_several_arrays_count_with_their_table(real: bool) -> None:
    got: list[tuple[str, int]] = []

    async def script(worker: Worker) -> None:
        if worker.rank == 0:
            payload = Sparse(np.arange(3, dtype=np.int32), worker.parameters[:3])
            await worker.send(1, Message(kind="a", payload=payload))
        elif worker.rank == 1:
            got.extend((str(each.dtype), len(each)) for each in (await worker.receive("a", src=0)).sparse)

    run = virtual_world.run(scripted(script), size=2, links={}, computes=linear(2) if real else None)
    assert got == [("int32", 3), ("float32", 3)]
    assert run.spans(0, Phase.SEND)["nbytes"].tolist() == [MESSAGE_HEADER_BYTES + 8 + 2 * (16 + 16)]


def test_a_part_that_changes_while_it_is_sent_is_found() -> None:
    async def script(worker: Worker) -> None:
        if worker.rank == 0:
            vector = np.zeros(1_000_000, dtype=np.float16)
            pending = worker.send(1, Message(kind="a", payload=(vector[:2], vector)))
            vector[-1] = 1
            await pending

    slow = virtual_world.everywhere(2, LinkModel(rate_bps=1e6))
    with pytest.raises(TrainingError, match="rank 0 changed the payload"):
        virtual_world.run(scripted(script), size=2, links=slow, computes=linear(2))


def test_a_payload_that_changes_while_it_is_sent_is_found() -> None:
    async def script(worker: Worker) -> None:
        if worker.rank == 0:
            vector = np.zeros(1_000_000, dtype=np.float32)
            pending = worker.send(1, Message(kind="a", payload=vector))
            vector[-1] = np.nan
            await pending

    slow = virtual_world.everywhere(2, LinkModel(rate_bps=1e6))
    with pytest.raises(TrainingError, match=r"rank 0 changed the payload of message 'a' to rank 1 before it had left"):
        virtual_world.run(scripted(script), size=2, links=slow, computes=linear(2))


def test_parameters_that_change_under_their_gradient_are_found() -> None:
    async def script(worker: Worker) -> None:
        async for _ in worker.iterations():
            async for _ in worker.gradient():
                worker.parameters[0] += 1

    with pytest.raises(TrainingError, match="rank 0 changed its parameters in iteration 0"):
        virtual_world.run(scripted(script), size=1, links={}, computes=linear(1))


def test_waiting_for_a_rank_that_is_done_fails() -> None:
    async def script(worker: Worker) -> None:
        if worker.rank == 0:
            worker.send(1, Message(kind="a"))
        elif worker.rank == 1:
            await worker.receive("a", src=0)
            await worker.receive("a", src=0)

    with pytest.raises(PeerLost, match="lost rank 0: it has ended its training"):
        virtual_world.run(scripted(script), size=2, links=DELAYED)


def test_background_tasks_serve_until_all_are_done() -> None:
    served: list[int] = []

    async def serve(worker: Worker) -> None:
        while True:
            message = await worker.receive_any("ask")
            if message is not None:
                served.append(message.src)
                worker.send(message.src, Message(kind="answer"))

    async def script(worker: Worker) -> None:
        if worker.rank == 0:
            worker.spawn(serve(worker), background=True)
            return
        for _ in range(worker.rank):
            worker.send(0, Message(kind="ask"))
            await worker.receive("answer", src=0)

    run = virtual_world.run(scripted(script), size=3, links=DELAYED)
    assert served == [1, 2, 2]
    assert run.result.end_ns == 40_000_000


def test_iterations_leave_the_spans_that_live_ones_leave() -> None:
    async def script(worker: Worker) -> None:
        async for _ in worker.iterations():
            async for bucket in worker.gradient():
                await worker.scale(bucket.values, 0.5)
            await worker.step()

    reports: list[SimulatedIteration] = []
    run = virtual_world.run(
        scripted(script), size=1, links={}, computes=linear(1), iterations=3, evaluate_every=1,
        on_progress=reports.append, factors=[2.0],
    )  # fmt: skip
    names = [Phase(int(phase)).name for phase in run.spans(0)["phase"]]
    assert names[:10] == ["SPAWN", "DATA", "FORWARD", "BACKWARD", "BACKWARD", "AWAIT_BUCKET", "REDUCE", "AWAIT_BUCKET",
                          "REDUCE", "STEP"]  # fmt: skip
    assert names.count("EVALUATE") == 2  # whoever asked for training evaluates its end
    assert [(report.iteration, report.accuracy) for report in reports] == [(0, 0.0), (1, 0.0), (2, None)]
    assert [report.at_ns for report in reports] == run.spans(0, Phase.ITERATION)["end_ns"].tolist()
    forward = run.spans(0, Phase.FORWARD)
    assert (forward["end_ns"] - forward["start_ns"]).tolist() == [round(2 * (2e-3 + 8e-3) / 3 * 1e9)] * 3


def test_only_a_rank_of_the_world_can_be_sent_to() -> None:
    async def script(worker: Worker) -> None:
        worker.send(worker.rank, Message(kind="a"))

    with pytest.raises(TrainingError, match="cannot send to rank 0 in a world of 1"):
        virtual_world.run(scripted(script), size=1, links={})


def test_no_event_loop_is_needed_or_touched() -> None:
    virtual_world.run(scripted(nothing), size=2, links={})
    with pytest.raises(RuntimeError):
        asyncio.get_running_loop()


WITHOUT = """
import sys
for name in ("torch", "sklearn", "e2clab", "enoslib", "asyncio"):
    sys.modules[name] = None
import virtual_world
from e2c_dl.strategies.allreduce import Allreduce
print(virtual_world.run(Allreduce, size=3, seed=1).result.messages)
"""


def test_shapes_alone_need_neither_torch_nor_an_event_loop(repository: Path) -> None:
    done = subprocess.run(
        [sys.executable, "-c", WITHOUT], capture_output=True, text=True, check=False,
        env={"PYTHONPATH": f"{repository}:{repository / 'tests'}", "PATH": ""},
    )  # fmt: skip
    assert done.returncode == 0, done.stderr
    assert int(done.stdout) > 0


def test_what_could_not_travel_live_is_refused() -> None:
    async def long_kind(worker: Worker) -> None:
        worker.send(1 - worker.rank, Message(kind="a kind that is too long"))

    async def strided(worker: Worker) -> None:
        worker.send(1 - worker.rank, Message(kind="a", payload=worker.parameters[::2]))

    with pytest.raises(TrainingError, match="at most 16 ASCII"):
        virtual_world.run(scripted(long_kind), size=2, links={})
    with pytest.raises(TrainingError, match="contiguous flat vector"):
        virtual_world.run(scripted(strided), size=2, links={}, computes=linear(2))


def test_asking_anybody_fails_once_nobody_is_left() -> None:
    async def script(worker: Worker) -> None:
        if worker.rank == 0:
            for _ in range(3):
                await worker.receive_any("a")
        else:
            worker.send(0, Message(kind="a"))

    with pytest.raises(PeerLost, match="has ended its training"):
        virtual_world.run(scripted(script), size=3, links=DELAYED)


def test_forward_tells_the_samples_of_every_gradient() -> None:
    run = virtual_world.run(Allreduce, size=2, samples=6, factors=(1.0, 2.0), iterations=8, batching="dynamic")
    first, other = (run.spans(rank, Phase.FORWARD)["seq"] for rank in range(2))
    assert (first[0], other[0]) == (6, 6)
    assert (first + other == 12).all(), "the total stays"
    assert (first[-1], other[-1]) == run.result.samples
    assert other[-1] < 6, "the slow host gets less"
    assert (run.spans(0, Phase.BACKWARD)["seq"] == -1).all()
    assert (run.spans(0, Phase.DATA)["seq"] == -1).all()
