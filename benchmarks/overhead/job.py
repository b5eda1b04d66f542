"""One rank of a training whose tracer is switched on and off, block by block: ``python -m benchmarks.overhead.job``.

::

    blocks    off | on | on | off | ...        the same order on all ranks, drawn from a seed; each 20 iterations
              hooks timed, some times          after some that are not measured: the tracer learns buckets anew
              without | kineto | kineto | ...  then torch.profiler, which leaves its process slower, hooks too by 5 us
              untimed | timeline | ...         last Horovod's timeline, for which Horovod begins anew each time

A rank has a processor of its own, as far as there are some, and there the library's threads come before what computes:
else each message waits for the scheduler's next tick, and iterations last as many ticks as chance has it.
"""

from __future__ import annotations

import json
import os
import random
import statistics
import sys
import tempfile
import threading
import time
from collections import Counter
from collections.abc import Callable, Collection, Iterable
from functools import partial
from pathlib import Path
from typing import Any

import torch
from torch import nn

from benchmarks.overhead.models import MODELS
from benchmarks.overhead.others import BESIDE, TOOLS
from benchmarks.overhead.own import Own
from e2c_dl.trace.recording.recorder import Row
from e2c_dl.tracing import attached
from e2c_dl.tracing.hooks.backward import backward_of
from e2c_dl.tracing.samplers.sampler import FLUSH_EVERY_S
from e2c_dl.tracing.settings import Settings
from e2c_dl.tracing.tracer import Tracer

ITERATIONS = 20
COUNTED = 60  # iterations whose hooks are timed, one by one
TIMED = 3  # times, which are some percent apart
WARM = 4
PROFILED = 6  # blocks of each other tool
TRANSPORT = "gloo"  # in the names of threads that only send, receive and add
STRETCH = 120  # iterations in which the tracer's thread is looked at: it works some seven times meanwhile


def thread_cpu_ns() -> int:
    """CPU time of the tracer's own threads so far."""
    ours = [each for each in threading.enumerate() if each.name.startswith(("trace", "e2cdl", "socket", "clock"))]
    return sum(time.clock_gettime_ns(time.pthread_getcpuclockid(each.ident)) for each in ours if each.ident)


def train(model: nn.Module, optimizer: Any, loader: Any, count: int) -> list[float]:
    """Seconds of each of ``count`` iterations."""
    seconds = []
    for _ in range(count):
        begun_s = time.perf_counter()
        inputs, labels = next(loader)
        loss = nn.functional.cross_entropy(model(inputs), labels)
        loss.backward()
        optimizer.step()
        optimizer.zero_grad()
        seconds.append(time.perf_counter() - begun_s)
    return seconds


def endless(data: Any, batch: int) -> Any:
    """Batches of ``data``, again and again."""
    while True:
        yield from torch.utils.data.DataLoader(data, batch_size=batch, drop_last=True)


def blocks(off: str, on: str, pairs: int, seed: int) -> list[str]:
    """``pairs`` of the two kinds, those of a pair next to each other, in drawn order."""
    drawn = random.Random(seed)
    order, kinds = [], [off, on]
    for _ in range(pairs):
        drawn.shuffle(kinds)
        order += kinds
    return order


def place() -> str:
    """Give this rank a processor of its own; what it was that could not be had, or nothing."""
    rank = int(os.environ.get("LOCAL_RANK", os.environ.get("HOROVOD_LOCAL_RANK", "0")))
    allowed = sorted(os.sched_getaffinity(0))
    if len(allowed) < 2:
        return "one processor for both ranks"
    os.sched_setaffinity(0, {allowed[rank % len(allowed)]})
    return ""


def threads() -> dict[int, str]:
    """This process's by their numbers, those that Python has not begun, and their names."""
    begun = {each.native_id for each in threading.enumerate()}
    found = {int(task.name): (task / "comm").read_text(encoding="utf-8") for task in Path("/proc/self/task").iterdir()}
    return {number: name for number, name in found.items() if number not in begun}


def prefer_transport(its: Collection[int]) -> str:
    """Let the library's threads, ``its`` and those of its transport, come first; what could not be had, or nothing."""
    for number, name in threads().items():
        if number in its or TRANSPORT in name:
            try:
                os.sched_setscheduler(number, os.SCHED_FIFO, os.sched_param(1))
            except PermissionError:
                return "not allowed to let threads of the transport come first: iterations last whole ticks"
    return ""


def main() -> None:
    """Train, and write what was measured as JSON where the first argument says."""
    out, name, framework, pairs, seed = sys.argv[1], sys.argv[2], sys.argv[3], int(sys.argv[4]), int(sys.argv[5])
    missing = [place()]
    torch.set_num_threads(1)
    torch.manual_seed(seed)
    with tempfile.TemporaryDirectory() as folder:
        tracer = attached.tracer(Settings(archive=Path(folder)))
        assert tracer is not None
        tracer.imported("torch")
        model, data, batch = MODELS[name]()
        wrapped, optimizer, its = wrap(framework, tracer, model)
        train(wrapped, optimizer, loader := endless(data, batch), WARM)
        missing.append(prefer_transport(its))  # whose threads are there by now
        train_some = partial(train, wrapped, optimizer, loader)
        result = measure(tracer, Path(folder), pairs, seed, train_some)
        for off, on in BESIDE[framework]:
            seconds, nbytes = beside(off, on, min(pairs, PROFILED), seed, train_some)
            result["seconds"] |= seconds
            result[f"{on}_bytes"] = nbytes
        result["missing"] = [each for each in missing if each]
        tracer.end()
    if os.environ.get("RANK", os.environ.get("HOROVOD_RANK")) == "0":
        Path(out).write_text(json.dumps(result))


def wrap(framework: str, tracer: Tracer, model: nn.Module) -> tuple[nn.Module, Any, frozenset[int]]:
    """``model`` and its optimizer for several ranks, and the library's own threads: Horovod's have no names."""
    optimizer = torch.optim.SGD(model.parameters(), lr=0.01, momentum=0.9)
    if framework == "horovod":
        import horovod.torch as hvd

        tracer.imported("horovod.torch")
        before = threads()
        hvd.init()
        its = frozenset(threads()) - frozenset(before)
        return model, hvd.DistributedOptimizer(optimizer, named_parameters=model.named_parameters()), its
    torch.distributed.init_process_group("gloo")
    return nn.parallel.DistributedDataParallel(model), optimizer, frozenset()


def measure(
    tracer: Tracer, folder: Path, pairs: int, seed: int, train_some: Callable[[int], list[float]]
) -> dict[str, Any]:
    """Seconds by kind and block, the tracer's own CPU time, spans and bytes per iteration."""
    session = tracer.session
    assert session is not None
    tracer.detach()
    time.sleep(2 * FLUSH_EVERY_S)  # what is in memory is written
    written_before, done_before = size(folder), session.iterations_done
    seconds: dict[str, list[list[float]]] = {"off": [], "on": []}
    for kind in blocks("off", "on", pairs, seed):
        if kind == "on":
            tracer.attach()
        train_some(WARM)
        seconds[kind].append(train_some(ITERATIONS))
        if kind == "on":
            tracer.detach()
    time.sleep(2 * FLUSH_EVERY_S)  # what is in memory is written
    on_disk = (size(folder) - written_before) / (session.iterations_done - done_before)
    own = [timed(tracer, train_some) for _ in range(TIMED)]
    return {"seconds": seconds, "own": own, "bytes": on_disk}


def beside(
    off: str, on: str, pairs: int, seed: int, train_some: Callable[[int], list[float]]
) -> tuple[dict[str, list[list[float]]], float]:
    """Seconds by kind and block without another tool and with it, and the bytes that it writes per iteration."""
    seconds: dict[str, list[list[float]]] = {off: [], on: []}
    written = 0
    for kind in blocks(off, on, pairs, seed):
        with TOOLS[kind]() as nbytes:
            train_some(WARM)
            seconds[kind].append(train_some(ITERATIONS))
        written += nbytes()
    return seconds, written / (pairs * (ITERATIONS + WARM))


def timed(tracer: Tracer, train_some: Callable[[int], object]) -> dict[str, Any]:
    """The tracer's own CPU time per iteration, and its spans. Its hooks are away before, and after."""
    tracer.attach()
    threads = share_of_threads(train_some)
    tracer.detach()
    time.sleep(2 * FLUSH_EVERY_S)  # what is in memory is written, and not counted below
    laps, spans = counted(tracer, lambda: train_some(1))
    clocks, _ = counted(tracer, lambda: train_some(1), empty=True)
    clocks_us = median_us(sum(lap.values()) for lap in clocks)
    hooks_us = {name: median_us(lap[name] for lap in laps) - median_us(lap[name] for lap in clocks)
                for name in set().union(*laps)}  # fmt: skip
    return {
        "hooks_us": median_us(sum(lap.values()) for lap in laps) - clocks_us, "by_hook_us": hooks_us,
        "clocks_us": clocks_us, "threads": threads, "spans": spans,
    }  # fmt: skip


def share_of_threads(train_some: Callable[[int], object]) -> float:
    """Of a processor, while it trains in one stretch: each time they work is for what was traced since the last."""
    train_some(2 * ITERATIONS)  # until they work as regularly as later
    begun_ns, before_ns = time.monotonic_ns(), thread_cpu_ns()
    train_some(STRETCH)
    return (thread_cpu_ns() - before_ns) / (time.monotonic_ns() - begun_ns)


def median_us(times_ns: Iterable[int]) -> float:
    """Microseconds."""
    return statistics.median(times_ns) / 1e3


def counted(
    tracer: Tracer, iteration: Callable[[], object], *, empty: bool = False
) -> tuple[list[Counter[str]], float]:
    """(nanoseconds that each hook took, of each of some iterations; spans of one). ``empty``: hooks do nothing."""
    session = tracer.session
    assert session is not None
    own, spans, taken = Own(empty=empty), 0, session.lane.taken

    def counting() -> list[Row]:
        nonlocal spans
        rows = taken()
        spans += len(rows)
        return rows

    session.lane.taken = counting  # type: ignore[method-assign]
    with own.installed():  # as long as it trains: hooks of gradients are put in place meanwhile
        tracer.attach()
        if empty:  # nobody learns which parameter comes last: it is known from before
            for each in backward_of(tracer).reducing:
                each.readiness.settle()
        for _ in range(WARM + COUNTED):
            iteration()
            own.lap()
        tracer.detach()
    time.sleep(2 * FLUSH_EVERY_S)  # spans are made when they are written
    session.lane.taken = taken  # type: ignore[method-assign]
    return own.laps[WARM:], spans / (WARM + COUNTED)


def size(folder: Path) -> int:
    """Bytes of this process's traces."""
    pid = os.getpid()
    mine = [path.parent for path in folder.glob("hosts/*/tracing.json") if json.loads(path.read_text())["pid"] == pid]
    return sum(path.stat().st_size for host in mine for path in host.glob("*.bin"))


if __name__ == "__main__":
    main()
