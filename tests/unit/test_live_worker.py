"""The live worker: progress, evaluation, failing tasks."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import ClassVar

import live_world
import numpy as np
import pytest

from e2c_dl import strategies
from e2c_dl.errors import InputError
from e2c_dl.strategies.base import Message, Strategy, Worker
from e2c_dl.trace.model import Phase
from e2c_dl.worlds.live import Progress


class Solo(Strategy):
    """Each rank by itself."""

    name: ClassVar[str] = "solo"

    @classmethod
    def links(cls, size: int) -> Sequence[tuple[int, int]]:
        return [(0, 1)]

    async def run(self, worker: Worker) -> None:
        async for _ in worker.iterations():
            async for _bucket in worker.gradient():
                pass
            await worker.step()


class Failing(Solo):
    """A spawned task fails while the main one waits for a message that never comes."""

    async def run(self, worker: Worker) -> None:
        async def fail() -> None:
            raise ZeroDivisionError("in a task")

        if worker.rank == 1:
            worker.spawn(fail())
        await worker.receive("never", src=1 - worker.rank)


class Nested(Solo):
    """Tasks that spawn tasks, with a result and a message without payload."""

    async def run(self, worker: Worker) -> None:
        async def inner(iteration: int) -> int:
            if worker.rank == 0:
                await worker.send(1, Message(kind="token", iteration=iteration))
            else:
                assert (await worker.receive("token", src=0, iteration=iteration)).payload is None
            return iteration

        async def outer(iteration: int) -> int:
            return await worker.spawn(inner(iteration)) + 1

        async for iteration in worker.iterations():
            assert await worker.spawn(outer(iteration)) == iteration + 1


def linear() -> live_world.Linear:
    return live_world.Linear(np.ones(4), [slice(2, 4), slice(0, 2)], lambda iteration, w: w, 0.5)


def test_progress_and_evaluation_when_due_on_rank_0(tmp_path: Path) -> None:
    told: list[Progress] = []
    computes = [linear(), linear()]
    spans = live_world.train(tmp_path, Solo, computes, [1, 1], 5, evaluate_every=2, on_progress=told.append)
    accuracies = {(each.rank, each.iteration): each.accuracy for each in told}
    assert len(accuracies) == 10
    assert [key for key, accuracy in accuracies.items() if accuracy is not None] == [(0, 1), (0, 3)]
    assert np.sum(spans[0]["phase"] == Phase.EVALUATE) == 2
    assert Phase.EVALUATE not in spans[1]["phase"]
    for own in spans:
        iterations = own[own["phase"] == Phase.ITERATION]
        assert iterations["iteration"].tolist() == list(range(5))
        assert np.array_equal(iterations["end_ns"][:-1], iterations["start_ns"][1:])
        (training,) = own[own["phase"] == Phase.TRAINING]
        assert (training["start_ns"], training["end_ns"]) == (iterations["start_ns"][0], iterations["end_ns"][-1])


def test_a_failing_task_ends_the_worker(tmp_path: Path) -> None:
    with pytest.raises(ZeroDivisionError, match="in a task"):
        live_world.train(tmp_path, Failing, [linear(), linear()], [1, 1], 1)


def test_a_failing_gradient_ends_the_worker(tmp_path: Path) -> None:
    def divide(iteration: int, w: np.ndarray) -> np.ndarray:
        raise ZeroDivisionError("in the thread")

    broken = live_world.Linear(np.ones(1), [slice(0, 1)], divide, 1.0)
    with pytest.raises(ZeroDivisionError, match="in the thread"):
        live_world.train(tmp_path, Solo, [broken, linear()], [1, 1], 1)


def test_tasks_have_numbers_and_iterations_of_their_own(tmp_path: Path) -> None:
    spans = live_world.train(tmp_path, Nested, [linear(), linear()], [1, 1], 2)[0]
    spawned = spans[spans["phase"] == Phase.SPAWN]
    assert spawned[["task", "peer_task", "iteration"]].tolist() == [(0, 1, 0), (1, 2, 0), (0, 3, 1), (3, 4, 1)]
    sent = spans[spans["phase"] == Phase.SEND]
    assert sent[["task", "iteration"]].tolist() == [(2, 0), (4, 1)]


def test_strategies_are_found_by_name() -> None:
    assert "allreduce" in strategies.names()
    assert "base" not in strategies.names()
    assert strategies.load("allreduce").name == "allreduce"
    with pytest.raises(InputError, match="'alreduce' does not exist; write allreduce"):
        strategies.load("alreduce")
