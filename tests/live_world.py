"""The live world with all its ranks in one event loop, over loopback: real sockets and frames, no processes."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack
from pathlib import Path

import numpy as np

from e2c_dl.strategies.base import Compute, Evaluation, OnSegment, Setting, Strategy, Vector
from e2c_dl.strategies.wrappers import Wrapping
from e2c_dl.trace.model import Phase, Spans
from e2c_dl.trace.recording.recorder import Recorder, read_spans
from e2c_dl.worlds.allotment import Equal
from e2c_dl.worlds.live import IterationDone, LiveWorker, Network, OwnShare, Share, SocketOptions

LARGEST = 1 << 24
KEY = b"a key that all ranks of these tests share"


class Everybody:
    """Where ranks of one event loop wait for each other, once."""

    def __init__(self, size: int) -> None:
        self._missing = size
        self._complete = asyncio.Event()

    async def here(self) -> None:
        self._missing -= 1
        if not self._missing:
            self._complete.set()
        await self._complete.wait()


class Linear:
    """A Compute without torch: its gradient is a given function of (iteration, parameters), its buckets are given."""

    def __init__(
        self, parameters: Vector, buckets: Sequence[slice], gradient: Callable[[int, Vector], Vector], rate: float
    ) -> None:
        self.parameters = parameters.copy()
        self.gradients: Vector = np.zeros_like(parameters)
        self.buckets, self.tensor_shapes = buckets, ()
        self._gradient, self._rate = gradient, rate

    def gradient(self, iteration: int, samples: int, on_segment: OnSegment) -> float:
        values = self._gradient(iteration, self.parameters)
        for index, where in enumerate(self.buckets):
            self.gradients[where] = values[where]
            on_segment(Phase.BACKWARD, index, 0, 0)
        return 0.0

    def step(self) -> None:
        self.parameters -= self._rate * self.gradients

    def evaluate(self) -> Evaluation:
        return Evaluation(loss=float(np.sum(self.parameters)), accuracy=0.0)


def networks(
    stack: ExitStack, recorders: Sequence[Recorder], options: SocketOptions | None = None, largest: int = LARGEST
) -> list[Network]:
    """One listening Network per recorder; closed with ``stack``."""
    opened = []
    for rank, recorder in enumerate(recorders):
        network = Network(
            "127.0.0.1", rank=rank, size=len(recorders), key=KEY, recorder=recorder, largest_payload_bytes=largest,
            options=options,
        )  # fmt: skip
        stack.callback(network.abort)
        opened.append(network)
    return opened


async def connected(opened: Sequence[Network], links: Sequence[tuple[int, int]]) -> None:
    addresses = [network.address for network in opened]
    await asyncio.gather(*(network.connect(addresses, links) for network in opened))


def recorders(stack: ExitStack, directory: Path, count: int) -> list[Recorder]:
    made = [Recorder(directory / f"{rank}.bin", rank=rank, host=f"h{rank}", layer="edge") for rank in range(count)]
    for recorder in made:
        stack.enter_context(recorder)
    return made


def train(
    directory: Path,
    strategy: type[Strategy],
    computes: Sequence[Compute],
    batch_sizes: Sequence[int],
    iterations: int,
    evaluate_every: int = 0,
    on_progress: Callable[[IterationDone], None] = lambda _: None,
    *,
    settings: Mapping[str, Setting] | None = None,
    layers: Sequence[str] | None = None,
    batching: str = "fixed",
    seed: int = 1,
    shares: Callable[[], Sequence[Share]] | None = None,
) -> list[Spans]:
    """Run ``strategy`` on all ranks to its end; each rank's spans. The computes hold the result.

    ``shares`` makes each rank's share of a budget, in the event loop; without, each has ``iterations``.
    """
    where = layers or ["edge"] * len(computes)
    made = [strategy(**(settings or {})) for _ in computes]

    async def run() -> None:
        with ExitStack() as stack:
            written = recorders(stack, directory, len(computes))
            opened = networks(stack, written)
            await connected(opened, made[0].used_links(where))
            everybody = Everybody(len(computes))
            own = shares() if shares else [
                OwnShare(Equal(iterations), rank, recorder.clock) for rank, recorder in enumerate(written)
            ]  # fmt: skip
            workers = [
                LiveWorker(
                    network=opened[rank], compute=compute, thread=stack.enter_context(ThreadPoolExecutor(1)),
                    recorder=written[rank], samples=batch_sizes[rank], total_samples=sum(batch_sizes),
                    layers=where, seed=seed, budget=own[rank], evaluate_every=evaluate_every,
                    on_progress=on_progress,
                )
                for rank, compute in enumerate(computes)
            ]  # fmt: skip
            await asyncio.gather(*(
                worker.run(each, everybody.here, Wrapping(batching=batching))
                for worker, each in zip(workers, made, strict=True)
            ))  # fmt: skip
            await asyncio.gather(*(network.close() for network in opened))

    asyncio.run(run())
    return [read_spans(directory / f"{rank}.bin")[1] for rank in range(len(computes))]
