"""Traces of a script that has phases of its own, in any framework or in none: three lines.

::

    from e2c_dl import tracing as trace

    with trace.run("traces/mine"):
        for i in trace.iteration(range(100)):
            with trace.span("data"):
                batch = draw(i)
            with trace.span("forward"):
                ...
"""

from __future__ import annotations

import os
import sys
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from difflib import get_close_matches
from operator import index
from pathlib import Path
from threading import get_ident
from types import TracebackType
from typing import Generic, SupportsIndex, TypeVar, cast

from e2c_dl.errors import InputError
from e2c_dl.trace.attaching import LAYER
from e2c_dl.trace.check import MOST_BYTES
from e2c_dl.trace.collectives import MOST_GROUP, WORLD
from e2c_dl.trace.model import Collective, Phase
from e2c_dl.tracing import attached, folder
from e2c_dl.tracing.ends import failed
from e2c_dl.tracing.hooks import files
from e2c_dl.tracing.session import Session
from e2c_dl.tracing.settings import Settings
from e2c_dl.tracing.tracer import Tracer

Item = TypeVar("Item")

SPANS = {
    phase.name.lower(): phase
    for phase in (
        Phase.DATA, Phase.FORWARD, Phase.BACKWARD, Phase.REDUCE, Phase.STEP, Phase.EVALUATE, Phase.CHECKPOINT,
        Phase.COPY, Phase.COLLECTIVE,
    )
}  # fmt: skip
"""What :func:`span` may be told."""

WORK = (Phase.FORWARD, Phase.BACKWARD, Phase.REDUCE, Phase.STEP, Phase.COLLECTIVE)
"""What an iteration is made for: what has none of these was only begun."""

KINDS = {kind.name.lower(): kind for kind in Collective}

MOST_BUCKET, MOST_ITERATION = (1 << 15) - 1, (1 << 30) - 1


@contextmanager
def run(
    archive: str | os.PathLike[str],
    *,
    rank: SupportsIndex | None = None,
    world_size: SupportsIndex | None = None,
    layer: str | None = None,
) -> Iterator[None]:
    """Trace what is in it as one rank of a run, below ``archive``/hosts.

    ``rank`` and ``world_size`` are what the launcher says in the environment, else 0 and 1. Under ``e2c-dl trace`` its
    own archive is used, in which each process has one run. A run within another is a part of it.
    Raises: InputError for a rank that is none, and beside a run in another thread; whatever the block raises.
    """
    told_rank, told_size = folder.of_environment()
    own = told_rank if rank is None else _index(rank, "run: rank")
    size = told_size if world_size is None else _index(world_size, "run: world_size")
    if not 0 <= own < size:
        raise InputError(f"trace.run: rank {own} of {size} is none; write 0 <= rank < world_size")
    place = Settings(archive=Path(archive).resolve(), layer=layer or os.environ.get(LAYER) or "all")
    told = Settings.of(os.environ)
    tracer = attached.tracer(told or place)
    assert tracer is not None
    if tracer.run_by is not None:
        if tracer.run_by != get_ident():
            raise InputError("trace.run: another thread of this process has a run; a process traces one at a time")
        yield
        return
    if told is None:
        tracer.settings = place
    session, tracer.run_by = tracer.sign(), get_ident()
    session.meet(own, size)
    tracer.opened(session)
    _watch_traces(tracer, session, own)
    try:
        yield
    except BaseException as error:
        session.end(failed(error))
        raise
    else:
        session.end()
    finally:
        tracer.session = tracer.run_by = None


def _watch_traces(tracer: Tracer, session: Session, rank: int) -> None:
    """What Horovod and torch's profilers write meanwhile goes into the archive."""
    timeline = files.horovod_timeline()
    if timeline and rank == 0:
        session.wrote(timeline)
    try:
        if "torch" in sys.modules:
            tracer.install(files.install_exports)
    except Exception as error:  # noqa: BLE001  # a script is never stopped by what only watches it
        session.limited(f"traces that torch's profilers export are not in the archive: {error}")


class iteration(Generic[Item]):  # noqa: N801  # it is used as a function is
    """Iterations that the script itself bounds: ``for i in iteration(range(9))``, or ``with iteration(i)``.

    Each item of an iterable is one iteration; numbers begin with 0 and go on from one loop to the next, as of epochs.
    That which a loop is left in ends with its last step, or span of :data:`WORK`; without one it is none. With a
    number, the block is that iteration, unless it raises; numbers that do not begin with 0, or begin anew, are counted
    on instead, and that is said. Spans that are recorded meanwhile belong to it. The thread
    of the first one is that which trains. Outside of a run, and in other threads, nothing is recorded.
    """

    def __init__(self, what: SupportsIndex | Iterable[Item]) -> None:
        self._what, self._counts = what, False
        self._given = True  # by the script, what it is
        self._number = -1  # of the iteration that is under way

    def __iter__(self) -> Iterator[Item]:
        try:
            items: Iterator[Item] = iter(cast("Iterable[Item]", self._what))
        except TypeError as error:
            if not hasattr(self._what, "__index__"):
                raise
            told = f"trace.iteration({self._what}) is one iteration: write `with`, or pass range(...)"
            raise InputError(told) from error
        while True:
            session = _session()
            own: iteration[Item] = iteration(0 if session is None else session.iterations_done)
            own._given = False
            with own:
                try:  # what it takes to make an item is a part of its iteration
                    item = next(items)
                except StopIteration:
                    own._drop()
                    return
                yield item

    def _drop(self) -> None:
        """There is no such iteration."""
        session, self._counts = _session() if self._counts else None, False
        if session is not None:
            session.outside()

    def __enter__(self) -> None:
        try:
            number = index(cast(SupportsIndex, self._what))
        except TypeError:
            number = -1
        if not 0 <= number <= MOST_ITERATION:
            raise InputError(f"`with trace.iteration(...)` takes the iteration's number, from 0 to {MOST_ITERATION}")
        session = _session()
        if session is not None and not session.explicit:
            session.explicit, session.main = True, get_ident()
        self._counts = session is not None and _trains(session)
        if session is not None and self._counts:
            counted = _counted(session, number) if self._given else number
            self._number = max(counted, session.iterations_done)
            if self._number > counted:
                session.limited("numbers given to trace.iteration began anew: iterations are counted on instead")
            session.begin_iteration(self._number)

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        session = _session()
        if session is not None and self._counts and session.iteration == self._number:
            if kind is None:
                session.end_iteration(session.clock())
                _opened(session)
            session.outside(worked=kind is GeneratorExit)  # which comes when the loop is left, or much later


@contextmanager
def span(phase: str, *, bucket: int = -1, nbytes: int = 0, kind: str = "other", group: int = -2) -> Iterator[None]:
    """What is in it is ``phase``: one of :data:`SPANS`, its own time; a span within it is taken out.

    A ``collective`` is also what this rank waits for meanwhile; ``kind`` is one of Collective's names. In threads
    beside the one that trains nothing is recorded.
    Raises: InputError for any other name, and for a number that is not whole or of which there cannot be so many.
    """
    found, kind_of = _named(phase, SPANS, "phase"), _named(kind, KINDS, "kind")
    bucket, nbytes = _whole(bucket, "bucket", -1, MOST_BUCKET), _whole(nbytes, "nbytes", 0, MOST_BYTES)
    group = _whole(group, "group", WORLD, MOST_GROUP)
    session = _session()
    if session is None or not _trains(session):
        yield
        return
    if found is Phase.COLLECTIVE:
        seq = session.next_seq(group)
        start_ns = session.enter(Phase.AWAIT_COLLECTIVE, seq=seq, peer_task=group)
    else:
        session.enter(found, bucket=bucket)
    try:
        yield
    finally:
        end_ns = session.leave()
        if found is Phase.COLLECTIVE:
            session.record(
                Phase.COLLECTIVE, start_ns, end_ns, seq=seq, bucket=bucket, nbytes=nbytes,
                kind=kind_of, peer_task=group,
            )  # fmt: skip
    if found in WORK:
        session.worked_ns = end_ns


def _counted(session: Session, given: int) -> int:
    """The number ``given`` as iterations are counted: from 0, whichever the script gave its first one."""
    if session.given_from is None:
        session.given_from = 0 if session.iterations_done else given
        if session.given_from:
            session.limited(f"numbers given to trace.iteration begin with {given}: iterations are counted from 0")
    return given - session.given_from


def _trains(session: Session) -> bool:
    """Whether this is the thread that trains; that another is not recorded is said."""
    if get_ident() == session.main:
        return True
    session.limited("spans and iterations of other threads than the one that trains are not recorded")
    return False


Value = TypeVar("Value")


def _named(name: str, known: dict[str, Value], what: str) -> Value:
    if name not in known:
        close = get_close_matches(name, known, n=1)
        remedy = f"did you mean {close[0]!r}?" if close else f"write one of {', '.join(known)}"
        raise InputError(f"trace.span: {name!r} is no {what}; {remedy}")
    return known[name]


def _whole(number: SupportsIndex, what: str, least: int, most: int) -> int:
    found = _index(number, f"span: {what}")
    if not least <= found <= most:
        raise InputError(f"trace.span: {what}={found} is not within {least} and {most}")
    return found


def _index(number: SupportsIndex, what: str) -> int:
    """``number``, which may be NumPy's. Raises: InputError."""
    try:
        return index(number)
    except TypeError as error:
        raise InputError(f"trace.{what}={number!r} is no whole number; write int(...)") from error


def _opened(session: Session) -> None:
    """It may have met with its first iteration: what this process begins is no rank then."""
    tracer = attached.tracer()
    if tracer is not None:
        tracer.opened(session)


def _session() -> Session | None:
    tracer = attached.tracer()
    return tracer.session if tracer is not None else None
