"""Tools that the tracer is shown beside, each around blocks of iterations: torch.profiler, and Horovod's own timeline.

Horovod begins anew for each block, with the timeline and without. ``hvd.start_timeline`` within one beginning would
hide most of what a timeline costs: it works only where HOROVOD_TIMELINE was DYNAMIC from the beginning on, and then the
thread that writes spins from there on, whether the timeline is on or not.
"""

from __future__ import annotations

import os
import tempfile
from collections.abc import Callable, Iterator, Mapping
from contextlib import AbstractContextManager, contextmanager
from functools import partial
from pathlib import Path
from unittest import mock

import torch

BESIDE = {"ddp": (("without", "kineto"),), "horovod": (("without", "kineto"), ("untimed", "timeline"))}
"""Framework -> kinds of blocks: (without the tool, with it)."""


@contextmanager
def nothing() -> Iterator[Callable[[], int]]:
    """No tool, and no bytes."""
    yield int


@contextmanager
def profiled() -> Iterator[Callable[[], int]]:
    """torch.profiler, as its own page shows."""
    with torch.profiler.profile() as profile:
        yield lambda: _exported(profile)


def _exported(profile: torch.profiler.profile) -> int:
    """Bytes of its trace."""
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "trace.json"
        profile.export_chrome_trace(str(path))
        return path.stat().st_size


@contextmanager
def of_horovod(*, timeline: bool) -> Iterator[Callable[[], int]]:
    """Another beginning of Horovod, whose end closes its ``timeline``, which rank 0 writes; and one more after it."""
    with tempfile.TemporaryDirectory() as folder:
        path, nbytes = Path(folder) / "timeline.json", 0
        begin_anew({"HOROVOD_TIMELINE": str(path)} if timeline else {})
        try:
            yield lambda: nbytes
        finally:
            begin_anew({})
            nbytes = path.stat().st_size if path.exists() else 0


def begin_anew(environment: Mapping[str, str]) -> None:
    """Have Horovod begin with ``environment`` on all ranks, which are of one machine.

    They meet at a server of their own. That of horovodrun forgets who is done with one group of ranks when all are with
    another; addresses of one beginning may then be there in the next, in which ranks wait for 30 s and abort.
    """
    import horovod.torch as hvd
    from horovod.runner.common.util.hosts import get_host_assignments, parse_hosts
    from horovod.runner.http.http_server import RendezvousServer

    server = RendezvousServer() if hvd.rank() == 0 else None
    port = 0
    if server is not None:
        port = server.start()
        server.init(get_host_assignments(parse_hosts(f"{os.environ['HOROVOD_HOSTNAME']}:{hvd.size()}"), hvd.size()))
    port = hvd.broadcast_object(port)
    hvd.shutdown()
    with mock.patch.dict(os.environ, {**environment, "HOROVOD_GLOO_RENDEZVOUS_PORT": str(port)}):
        hvd.init()
    hvd.barrier()  # until all have met
    if server is not None:
        server.stop()


TOOLS: dict[str, Callable[[], AbstractContextManager[Callable[[], int]]]] = {
    "without": nothing,
    "kineto": profiled,
    "untimed": partial(of_horovod, timeline=False),
    "timeline": partial(of_horovod, timeline=True),
}
"""Kind of block -> what is around it; what that gives says, once it is left, the bytes that were written."""
