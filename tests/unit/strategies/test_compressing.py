"""The footing of compressors: what is compressed, for whom state is kept, and what a compressor may leave out."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

import numpy as np
import pytest
import virtual_world
from quadratic import Problem
from virtual_world import scripted

from e2c_dl import strategies
from e2c_dl.errors import InputError, TrainingError
from e2c_dl.strategies.base import Array, Message, Sparse, Vector, Worker
from e2c_dl.strategies.collectives import Tag, gather
from e2c_dl.strategies.compression import Compressing, Compressor, compressed
from e2c_dl.strategies.compression.compressing import MARK, Zeros
from e2c_dl.trace.model import Phase
from e2c_dl.worlds.virtual import LinkModel

LENGTHS = (600, 300)


class FirstHalf(Compressor):
    """Sends the first half of what is to be added, and the rest with the next; what may not wait, as halves."""

    def __init__(self) -> None:
        self._rest: Vector | None = None

    def encode(self, values: Vector, adds: bool) -> tuple[Array, ...]:
        if not adds:
            return (values.astype(np.float16),)
        owed = values + (0 if self._rest is None else self._rest)
        kept = len(owed) // 2
        self._rest = np.concatenate([np.zeros(kept, owed.dtype), owed[kept:]])
        return (owed[:kept].copy(),)

    def decode(self, arrays: Sequence[Array], length: int, dtype: str) -> Vector:
        decoded = np.zeros(length, dtype)
        decoded[: len(arrays[0])] = arrays[0]
        return decoded

    def shapes(self, length: int, dtype: str, adds: bool, zeros: Zeros) -> tuple[Array, ...]:
        return (zeros(length // 2, dtype) if adds else zeros(length, "float16"),)


def halved(worker: Worker) -> Worker:
    return Compressing(worker, FirstHalf)


def computes(size: int) -> list[object]:
    return list(Problem(size, 1, lengths=LENGTHS, dtype=np.float32).computes())


def test_state_is_kept_for_each_receiver_and_bucket() -> None:
    got: dict[tuple[int, int], list[float]] = {}

    async def script(worker: Worker) -> None:
        ones = worker.zeros() + 1
        for iteration in range(2):
            for dst, bucket in ((1, 0), (2, 0), (2, 1)):
                if worker.rank == 0 and (dst, bucket) != (2, iteration):  # rank 2 misses one of each bucket
                    message = Message(kind="a", iteration=iteration, bucket=bucket, payload=ones, adds=True)
                    await worker.send(dst, message)
                elif worker.rank == dst and (dst, bucket) != (2, iteration):
                    came = (await worker.receive("a", src=0, iteration=iteration, bucket=bucket)).vector
                    got.setdefault((dst, bucket), []).append(float(came.sum()))

    virtual_world.run(scripted(script), size=3, links={}, computes=computes(3), wrapping=halved)
    assert got == {(1, 0): [450, 450], (2, 0): [450], (2, 1): [450]}


@pytest.mark.parametrize("name", [name for name in strategies.names() if name != "gaia"])  # its sizes are of values
def test_every_strategy_runs_compressed_and_sizes_are_those_of_shapes(name: str) -> None:
    def sent(real: bool) -> list[int]:
        run = virtual_world.run(
            strategies.load(name), size=3, iterations=3, computes=computes(3) if real else None, wrapping=halved,
            links=virtual_world.everywhere(3, LinkModel(rate_bps=1e7)),
            of=virtual_world.profile_of(computes(3)[0]),  # type: ignore[arg-type]
        )  # fmt: skip
        return sorted(int(each) for rank in range(3) for each in run.spans(rank, Phase.SEND)["nbytes"])

    assert sent(real=True) == sent(real=False)


@pytest.mark.parametrize("at_ms", [20, 21, 23, 50])
def test_who_is_lost_while_an_answer_to_it_leaves_ends_no_run_of_others(at_ms: int) -> None:
    hosts = list(virtual_world.hosts(4, of=virtual_world.profile((50_000,))))
    hosts[2] = replace(hosts[2], killed_at_s=at_ms / 1e3)
    run = virtual_world.run(
        strategies.load("asyncparameterserver"), size=4, seed=1, iterations=20, on_hosts=hosts,
        wrapping=lambda worker: compressed(worker, "fp16", {}),
    )  # fmt: skip
    assert [len(run.spans(rank, Phase.ITERATION)) for rank in (0, 1, 3)] == [20] * 3


def test_messages_of_unlike_lengths_are_streams_of_their_own() -> None:
    got: list[list[float]] = []

    async def script(worker: Worker) -> None:
        ones = worker.zeros() + 1
        for iteration, length in enumerate([600, 500, 600, 500]):
            if worker.rank == 0:
                await worker.send(1, Message(kind="a", iteration=iteration, payload=ones[:length], adds=True))
            else:
                came = (await worker.receive("a", src=0, iteration=iteration)).vector
                got.append([len(came), float(came.sum())])

    virtual_world.run(scripted(script), size=2, links={}, computes=computes(2), wrapping=halved)
    assert got == [[600, 300], [500, 250], [600, 300], [500, 250]]


@pytest.mark.parametrize("real", [True, False])
def test_numbers_that_ranks_gather_are_never_compressed(real: bool) -> None:
    size, got = 130, []  # more than 1 KiB of them, of the model's own type

    async def script(worker: Worker) -> None:
        got.append(await gather(worker, 1000.1 + worker.rank, Tag(kind="a", iteration=0), range(size)))

    models = Problem(size, 1, lengths=(9,)).computes()
    virtual_world.run(
        scripted(script), size=size, links={}, computes=models if real else None,
        of=virtual_world.profile_of(models[0]), wrapping=lambda worker: compressed(worker, "int8", {}),
    )  # fmt: skip
    assert got == [[1000.1 + rank for rank in range(size)]] * size


def test_what_is_no_vector_of_the_models_type_travels_as_it_is() -> None:
    payloads = [
        None, np.ones(900, np.int32), np.ones(900), np.ones(9, np.float32),
        Sparse(np.arange(900, dtype=np.int32), np.ones(900, np.float32)),
    ]  # fmt: skip
    sizes: list[list[int]] = []

    async def script(worker: Worker) -> None:
        if worker.rank == 0:
            for step, payload in enumerate(payloads):
                await worker.send(1, Message(kind="a", step=step, payload=payload, adds=True))
            return
        sizes.extend([len(each) for each in message.arrays] for message in worker.arrived("a"))
        for step in range(len(payloads)):
            came = await worker.receive("a", src=0, step=step)
            sizes.append([len(each) for each in came.arrays])

    virtual_world.run(scripted(script), size=2, links={}, computes=computes(2), wrapping=halved)
    assert sizes == [[], [900], [900], [9], [900, 900]]


def test_a_head_that_cannot_be_is_refused() -> None:
    async def script(worker: Worker) -> None:
        if worker.rank == 0:
            await worker.send(1, Message(kind="a", payload=(np.array([MARK, 1 << 40, 0]), np.ones(4))))
        else:
            await worker.receive("a", src=0)

    with pytest.raises(TrainingError, match="stands for 1099511627776 numbers, the model has 900"):
        virtual_world.run(scripted(script), size=2, links={}, computes=computes(2), wrapping=halved)


def test_a_compression_that_does_not_exist_is_told() -> None:
    worker = object()
    with pytest.raises(InputError, match="compression 'non' does not exist; write none"):
        compressed(worker, "non", {})  # type: ignore[arg-type]
    with pytest.raises(InputError, match="has no settings; remove rank"):
        compressed(worker, "none", {"rank": 2})  # type: ignore[arg-type]
    assert compressed(worker, "none", {}) is worker  # type: ignore[arg-type]
