"""The workload in the virtual world, and live: six ranks over loopback in one process, computing by sleep."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack
from pathlib import Path
from tempfile import TemporaryDirectory

from benchmarks.batching.workload import BATCH, PARAMETERS, SAMPLE_S, SPEEDS, Measured, Sleeping, by_iteration
from e2c_dl.dynamics.speed import ChangingSpeed, HostSpeed
from e2c_dl.scenario.schedule import Schedule
from e2c_dl.strategies.allreduce import Allreduce
from e2c_dl.strategies.batching import controlled
from e2c_dl.trace.model import Phase, Spans
from e2c_dl.trace.recording.recorder import Recorder, read_spans
from e2c_dl.worlds.allotment import Equal
from e2c_dl.worlds.live import LiveWorker, Network, OwnShare
from e2c_dl.worlds.virtual import ComputeProfile, GradientTimes, HostModel, InMemory, LinkModel, simulate

SIZE = len(SPEEDS)
NOISE = 0.01  # of virtual computing, relative: without any, ranks stay in a symmetry that no machine has
LINK = LinkModel(rate_bps=1e9, delay_s=1e-4)


def virtual(controller: str, repeat: int, iterations: int, changed: int) -> Measured:
    """One run in the virtual world. The change is at a time, of which the iteration is found afterwards."""
    equal = controller == "fixed"
    share = 1 / SIZE / min(SPEEDS) if equal else 1 / sum(SPEEDS)
    at_s = changed * SIZE * BATCH * SAMPLE_S * share
    hosts = [
        HostModel(
            name=f"edge-{rank}", profile=_profile(), samples=BATCH, noise=NOISE,
            speed=_exchanged(speed, SPEEDS[-1 - rank], at_s),
        )
        for rank, speed in enumerate(SPEEDS)
    ]  # fmt: skip
    computes, sink = [Sleeping() for _ in SPEEDS], InMemory()
    links = {(src, dst): LINK for src in range(SIZE) for dst in range(SIZE) if src != dst}
    simulate(
        Allreduce, hosts=hosts, links=links, computes=computes, sink=sink, iterations=iterations, seed=repeat,
        as_seen=lambda worker: controlled(worker, controller),
    )  # fmt: skip
    spans = sink.spans(0)
    begins = spans["start_ns"][spans["phase"] == Phase.ITERATION]
    return Measured(
        world="virtual", controller=controller, repeat=repeat, changed=int((begins < at_s * 1e9).sum()),
        iteration_s=_durations(spans), batches=by_iteration(computes),
    )  # fmt: skip


def live(controller: str, repeat: int, iterations: int, changed: int) -> Measured:
    """One run in the live world."""
    computes = [Sleeping((speed, SPEEDS[-1 - rank]), changed) for rank, speed in enumerate(SPEEDS)]
    with TemporaryDirectory() as directory:
        asyncio.run(_train(Path(directory), computes, controller, iterations))
        spans = read_spans(Path(directory, "0.bin"))[1]
    return Measured(
        world="live", controller=controller, repeat=repeat, changed=changed, iteration_s=_durations(spans),
        batches=by_iteration(computes),
    )  # fmt: skip


WORLDS: dict[str, Callable[[str, int, int, int], Measured]] = {"virtual": virtual, "live": live}


async def _train(directory: Path, computes: list[Sleeping], controller: str, iterations: int) -> None:
    everybody = _Everybody()
    with ExitStack() as stack:
        recorders = [
            stack.enter_context(Recorder(directory / f"{rank}.bin", rank=rank, host=f"h{rank}", layer="edge"))
            for rank in range(SIZE)
        ]
        networks = [
            Network(
                "127.0.0.1", rank=rank, size=SIZE, key=bytes(32), recorder=recorder,
                largest_payload_bytes=4 * PARAMETERS,
            )
            for rank, recorder in enumerate(recorders)
        ]  # fmt: skip
        for network in networks:
            stack.callback(network.abort)
        addresses = [network.address for network in networks]
        await asyncio.gather(
            *(network.connect(addresses, Allreduce().used_links(["edge"] * SIZE)) for network in networks)
        )
        workers = [
            LiveWorker(
                network=networks[rank], compute=compute, thread=stack.enter_context(ThreadPoolExecutor(1)),
                recorder=recorders[rank], samples=BATCH, total_samples=SIZE * BATCH, layers=["edge"] * SIZE, seed=0,
                budget=OwnShare(Equal(iterations), rank, recorders[rank].clock), evaluate_every=0,
                on_progress=lambda _: None,
            )
            for rank, compute in enumerate(computes)
        ]  # fmt: skip
        await asyncio.gather(*(
            worker.run(Allreduce(), everybody.here, lambda worker: controlled(worker, controller)) for worker in workers
        ))  # fmt: skip
        await asyncio.gather(*(network.close() for network in networks))


class _Everybody:
    """Returns to all when the last of them has come."""

    def __init__(self) -> None:
        self._missing = SIZE
        self._complete = asyncio.Event()

    async def here(self) -> None:
        self._missing -= 1
        if not self._missing:
            self._complete.set()
        await self._complete.wait()


def _exchanged(speed: float, later: float, at_s: float) -> ChangingSpeed:
    """``speed``, and from ``at_s`` on another, relative to the highest: a host is only ever slowed down."""
    schedule = Schedule(points=((0.0, max(SPEEDS) / speed), (at_s, max(SPEEDS) / later)))
    changing = ChangingSpeed(HostSpeed(base=1.0, schedule=schedule), lambda *_: None, lambda _: None)
    changing.began(0)
    return changing


def _profile() -> ComputeProfile:
    """At the highest speed: a gradient of b samples takes b times ``SAMPLE_S`` at speed 1."""
    sample_s = SAMPLE_S / max(SPEEDS)
    gradients = {
        samples: GradientTimes(data_s=0.0, forward_s=0.0, backward_s=(samples * sample_s,)) for samples in (1, 2)
    }
    return ComputeProfile(
        model="sleeping", dtype="float32", parameters=PARAMETERS, buckets=((0, PARAMETERS),), gradients=gradients
    )


def _durations(spans: Spans) -> tuple[float, ...]:
    iterations = spans[spans["phase"] == Phase.ITERATION]
    return tuple(((iterations["end_ns"] - iterations["start_ns"]) / 1e9).tolist())
