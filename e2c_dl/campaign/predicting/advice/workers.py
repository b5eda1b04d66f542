"""Many trials at once: in processes of this machine, or on a Dask cluster, by its scheduler's address.

::

    trials (candidate, seed) --> processes (spawned) or cluster --> Tried, in the order in which they end

What comes of a trial depends on its values alone, so the number of workers changes nothing but the time. Whatever ends
the command ends its processes; on a cluster, what was asked for is taken back.
"""

from __future__ import annotations

import multiprocessing
import os
import signal
from collections.abc import Generator, Iterator, Sequence
from concurrent.futures import ProcessPoolExecutor, as_completed
from concurrent.futures.process import BrokenProcessPool
from contextlib import contextmanager
from typing import Any

from e2c_dl.campaign.predicting.advice.candidates import Candidate
from e2c_dl.campaign.predicting.advice.ground import Ground
from e2c_dl.campaign.predicting.advice.trial import Tried, tried
from e2c_dl.errors import InputError, TrainingError

Trial = tuple[Candidate, int]
"""A candidate and its seed."""

CONNECT_S = 10.0
_ground: Ground | None = None  # of a worker process, which is given it once


def in_processes(ground: Ground, trials: Sequence[Trial], workers: int) -> Generator[Tried, None, None]:
    """What comes of ``trials``, as they end. Raises: TrainingError, if a process dies."""
    if workers == 1:
        yield from (tried(ground, *trial) for trial in trials)
        return
    before = {child.pid for child in multiprocessing.active_children()}
    context = multiprocessing.get_context("spawn")  # a fork would share locks, and whatever torch holds
    pool = ProcessPoolExecutor(workers, mp_context=context, initializer=_begin, initargs=(ground,))
    try:
        for done in as_completed([pool.submit(_tried, *trial) for trial in trials]):
            yield done.result()
    except BrokenProcessPool as error:
        raise TrainingError(
            "a process that tried a candidate died, maybe for want of memory; ask for fewer --workers"
        ) from error
    finally:
        pool.shutdown(wait=False, cancel_futures=True)
        for child in multiprocessing.active_children():
            if child.pid not in before:
                child.terminate()
                child.join()


def on_cluster(ground: Ground, trials: Sequence[Trial], address: str) -> Generator[Tried, None, None]:
    """The same, on the workers of the Dask scheduler at ``address``, which have this program.

    Raises: InputError, if dask is not installed, or nobody answers there.
    """
    with _client(address) as (client, completed):
        sent = client.scatter(ground, broadcast=True)
        asked = [client.submit(tried, sent, *trial, pure=False) for trial in trials]
        try:
            for _, result in completed(asked, with_results=True, loop=client.loop):  # it is nobody's default client
                yield result
        finally:
            client.cancel(asked)


@contextmanager
def _client(address: str) -> Iterator[tuple[Any, Any]]:
    try:
        from distributed import Client, as_completed
    except ImportError as error:
        raise InputError("--scheduler needs dask, which is not installed; install e2c_dl[cluster]") from error
    try:
        client = Client(address, timeout=CONNECT_S, set_as_default=False)
    except (OSError, ValueError) as error:
        raise InputError(
            f"--scheduler {address}: nobody answers there: {error}; write e.g. tcp://10.0.0.1:8786"
        ) from error
    try:
        yield client, as_completed
    finally:
        client.close()


def most_workers() -> int:
    """As many as this process may use processors."""
    return len(os.sched_getaffinity(0))


def _begin(ground: Ground) -> None:
    global _ground  # noqa: PLW0603 - once per process, before its first trial
    _ground = ground
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # of Ctrl-C the command hears, which ends this process
    os.environ.setdefault("OMP_NUM_THREADS", "1")  # before torch is imported: each process has one processor


def _tried(candidate: Candidate, seed: int) -> Tried:
    if _ground is None:
        raise TrainingError("a worker process was given no ground; report this")
    return tried(_ground, candidate, seed)
