"""The live worker: progress, evaluation, failing tasks."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import ClassVar, cast

import live_world
import numpy as np
import pytest

from e2c_dl import strategies
from e2c_dl.errors import InputError, PeerLost
from e2c_dl.strategies.base import Message, OnSegment, Strategy, Worker
from e2c_dl.trace.model import Phase
from e2c_dl.worlds.live import IterationDone, LiveWorker


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


class Serving(Solo):
    """Rank 1 serves rank 0 in the background, also after its own end; verbs that other strategies need."""

    async def run(self, worker: Worker) -> None:
        if worker.rank == 1:
            worker.spawn(self.serve(worker), background=True)
            return
        assert worker.compute_s == 0.0
        async for iteration in worker.iterations():
            async for _bucket in worker.gradient():
                pass
            assert worker.compute_s > 0.0
            asked = worker.zeros()
            await worker.copy(asked, worker.gradients)
            await worker.accumulate(asked, worker.parameters, 2.0)
            await worker.send(1, Message(kind="ask", iteration=iteration, payload=asked))
            answer = await worker.receive_any("answer")
            assert answer is not None
            assert (answer.src, answer.iteration) == (1, iteration)
            assert np.array_equal(answer.vector, -asked)
        assert await worker.receive_any("answer", timeout_s=0.0) is None
        assert worker.arrived("answer") == []
        await worker.send(1, Message(kind="last"))

    async def serve(self, worker: Worker) -> None:
        while asked := await worker.receive_any("ask", sources=[0]):
            answer = worker.zeros()
            await worker.accumulate(answer, asked.vector, -1.0)
            worker.send(asked.src, Message(kind="answer", iteration=asked.iteration, payload=answer))


class Leaving(Solo):
    """Rank 1 ends at once; rank 0 sees it, and goes on."""

    seen: ClassVar[list[str]] = []

    @classmethod
    def links(cls, size: int) -> Sequence[tuple[int, int]]:
        return [(0, 1), (1, 0)]

    async def run(self, worker: Worker) -> None:
        if worker.rank == 0:
            try:
                await worker.receive("never", src=1)
            except PeerLost as lost:
                self.seen.append(lost.why)
            with pytest.raises(PeerLost, match="ended its training"):
                await worker.receive_any("never")


class Drawing(Solo):
    """What each rank knows of itself."""

    seen: ClassVar[dict[int, tuple[object, ...]]] = {}

    async def run(self, worker: Worker) -> None:
        worker.resize(worker.samples + 1, worker.total_samples + 2)
        self.seen[worker.rank] = (list(worker.layers), float(worker.random.random()), worker.samples)


class Forward(live_world.Linear):
    """A gradient that tells of its forward, too."""

    def gradient(self, iteration: int, samples: int, on_segment: OnSegment) -> float:
        on_segment(Phase.FORWARD, -1, 0, 0)
        return super().gradient(iteration, samples, on_segment)


def linear() -> live_world.Linear:
    return live_world.Linear(np.ones(4), [slice(2, 4), slice(0, 2)], lambda iteration, w: w, 0.5)


def test_progress_and_evaluation_when_due_on_rank_0(tmp_path: Path) -> None:
    told: list[IterationDone] = []
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


def test_forward_tells_the_samples_of_its_gradient(tmp_path: Path) -> None:
    computes = [Forward(np.ones(4), [slice(0, 4)], lambda iteration, w: w, 0.5) for _ in range(2)]
    for own, samples in zip(live_world.train(tmp_path, Solo, computes, [3, 5], 2), (3, 5), strict=True):
        assert own[own["phase"] == Phase.FORWARD]["seq"].tolist() == [samples] * 2
        assert set(own[own["phase"] == Phase.BACKWARD]["seq"].tolist()) == {-1}


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


def test_a_background_role_serves_after_its_rank_has_ended(tmp_path: Path) -> None:
    spans = live_world.train(tmp_path, Serving, [linear(), linear()], [1, 1], 20)
    awaited = spans[0][spans[0]["phase"] == Phase.AWAIT_MESSAGE]
    assert awaited["seq"].tolist() == list(range(20))
    assert set(awaited["src"]) == {1}


def test_a_rank_that_has_ended_is_an_event_and_no_hang(tmp_path: Path) -> None:
    Leaving.seen.clear()
    live_world.train(tmp_path, Leaving, [linear(), linear()], [1, 1], 1)
    assert Leaving.seen == ["it has ended its training; no more messages come from it"]


def test_ranks_draw_from_generators_of_their_own(tmp_path: Path) -> None:
    Drawing.seen.clear()
    live_world.train(tmp_path, Drawing, [linear(), linear()], [3, 4], 1, layers=["edge", "cloud"], seed=5)
    expected = {rank: float(np.random.default_rng([5, rank]).random()) for rank in range(2)}
    assert Drawing.seen == {rank: (["edge", "cloud"], expected[rank], 4 + rank) for rank in range(2)}


def test_deadlines_are_offered_once_enough_was_seen(tmp_path: Path) -> None:
    offered: list[float | None] = []

    class Asking(Solo):
        async def run(self, worker: Worker) -> None:
            own = cast(LiveWorker, worker)
            for step in range(20):
                if worker.rank == 1:
                    worker.send(0, Message(kind="k", step=step))
                else:
                    await worker.receive_any("k", timeout_s=own.deadline_s("k"))
            if worker.rank == 0:
                offered.append(own.deadline_s("k"))
            else:
                worker.spawn(worker.receive_any("nothing"), background=True)

    live_world.train(tmp_path, Asking, [linear(), linear()], [1, 1], 1)
    assert offered[0] is not None
    assert offered[0] > 0


def test_strategies_are_found_by_name() -> None:
    assert "allreduce" in strategies.names()
    assert "base" not in strategies.names()
    assert strategies.load("allreduce").name == "allreduce"
    with pytest.raises(InputError, match="'alreduce' does not exist; write allreduce"):
        strategies.load("alreduce")
