"""Many trials at once: in processes of this machine, or on a Dask cluster, by its scheduler's address.

::

    task(ground, *trial) of each trial --> processes (spawned) or cluster --> what comes, in the order in which they end
    tried(ground, candidate, seed)                                            Tried: those of ``e2c-dl advise``

A task is a function of a module, and all that it is given can be sent to another process. What comes of a trial depends
on its values alone, so the number of workers changes nothing but the time. Whatever ends
the command ends its processes, and removes their temporary files; on a cluster, what was asked for is taken back.
"""

from __future__ import annotations

import asyncio
import multiprocessing
import os
import signal
import tempfile
import threading
from collections.abc import Callable, Generator, Iterator, Sequence
from concurrent.futures import ProcessPoolExecutor, as_completed
from concurrent.futures.process import BrokenProcessPool
from contextlib import contextmanager
from typing import Any, TypeVar

from e2c_dl.emulation.agent.worker_process import die_with_parent
from e2c_dl.errors import InputError, TrainingError

T = TypeVar("T")

CONNECT_S = 10.0
_task: Callable[..., Any] | None = None  # of a worker process, which is given it and its ground once
_ground: Any = None


def in_processes(
    task: Callable[..., T], ground: object, trials: Sequence[tuple[Any, ...]], workers: int
) -> Generator[T, None, None]:
    """What comes of ``trials``, as they end. Raises: TrainingError, if a process dies."""
    if workers == 1:
        yield from (task(ground, *trial) for trial in trials)
        return
    before = {child.pid for child in multiprocessing.active_children()}
    context = multiprocessing.get_context("spawn")  # a fork would share locks, and whatever torch holds
    with tempfile.TemporaryDirectory(prefix="e2c-dl-") as folder:  # theirs: who is ended removes nothing
        pool = ProcessPoolExecutor(workers, mp_context=context, initializer=_begin, initargs=(task, ground, folder))
        try:
            with _ctrl_c_waits():
                asked = [pool.submit(_tried, *trial) for trial in trials]  # which starts the processes
            for done in as_completed(asked):
                yield done.result()
        except BrokenProcessPool as error:
            raise TrainingError(
                "a process that made a trial died, maybe for want of memory; ask for fewer --workers"
            ) from error
        finally:
            pool.shutdown(wait=False, cancel_futures=True)
            for child in multiprocessing.active_children():
                if child.pid not in before:
                    child.terminate()
                    child.join()


@contextmanager
def _ctrl_c_waits() -> Iterator[None]:
    """Until this is left; what is started within never hears of it, not even while it imports what would say so."""
    came: list[int] = []  # another thread may be the one that it comes to
    handler, mask = signal.getsignal(signal.SIGINT), signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGINT})
    in_main = threading.current_thread() is threading.main_thread()
    if in_main:
        signal.signal(signal.SIGINT, lambda number, _: came.append(number))
    try:
        yield
    finally:
        if in_main:
            signal.signal(signal.SIGINT, handler)
        signal.pthread_sigmask(signal.SIG_SETMASK, mask)
        if came:
            signal.raise_signal(signal.SIGINT)


def on_cluster(
    task: Callable[..., T], ground: object, trials: Sequence[tuple[Any, ...]], address: str
) -> Generator[T, None, None]:
    """The same, on the workers of the Dask scheduler at ``address``, which have this program.

    Raises: InputError, if dask is not installed, nobody answers there, or no worker has come to it.
    """
    with _client(address) as (client, completed):
        try:
            client.wait_for_workers(1, timeout=CONNECT_S)
        except (TimeoutError, asyncio.TimeoutError) as error:
            raise InputError(f"--scheduler {address}: it has no worker; start one: dask worker {address}") from error
        sent = client.scatter(ground, broadcast=True)
        asked = [client.submit(task, sent, *trial, pure=False) for trial in trials]
        try:
            for _, result in completed(asked, with_results=True, loop=client.loop):  # it is nobody's default client
                yield result
        finally:
            client.cancel(asked)


@contextmanager
def _client(address: str) -> Iterator[tuple[Any, Any]]:
    try:
        from distributed import Client, as_completed
        from distributed.comm import resolve_address
    except ImportError as error:
        raise InputError("--scheduler needs dask, which is not installed; install e2c_dl[cluster]") from error
    try:
        asyncio.run(_greet(resolve_address(address)))
        client = Client(address, timeout=CONNECT_S, set_as_default=False)
    except (OSError, ValueError) as error:
        raise InputError(
            f"--scheduler {address}: nobody answers there: {error}; write e.g. tcp://10.0.0.1:8786"
        ) from error
    try:
        yield client, as_completed
    finally:
        client.close()


async def _greet(address: str) -> None:
    """A Client whom no scheduler answers writes tracebacks to stderr, half a minute later. Raises: OSError."""
    from distributed import Security
    from distributed.core import connect

    try:
        greeted = await connect(address, timeout=CONNECT_S, **Security().get_connection_args("client"))
    except OSError:
        raise
    except Exception as error:  # lengths and types are read from whatever another program says
        raise ConnectionError("what answers is no scheduler of Dask") from error
    await greeted.close()


def most_workers() -> int:
    """As many as this process may use processors."""
    return len(os.sched_getaffinity(0))


def _begin(task: Callable[..., Any], ground: object, folder: str) -> None:
    global _task, _ground
    _task, _ground = task, ground
    tempfile.tempdir = folder
    parent = multiprocessing.parent_process()
    if parent is not None and not die_with_parent(parent.pid or 0):  # whose kill -9 it would not hear of
        os._exit(1)
    os.environ.setdefault("OMP_NUM_THREADS", "1")  # before torch is imported: each process has one processor


def _tried(*trial: Any) -> Any:
    if _task is None:
        raise TrainingError("a worker process was given no task; report this")
    return _task(_ground, *trial)
