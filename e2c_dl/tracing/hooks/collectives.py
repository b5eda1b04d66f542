"""Collectives of torch.distributed, as scripts and FSDP call them: COLLECTIVE, and AWAIT_COLLECTIVE where one waits.

An asynchronous one lasts from its call, which is no wait, until its Work or a Future of it was waited for; one that
nobody waits for is not recorded, and tracing.json says so. Those that DDP's reducer makes are
:mod:`e2c_dl.tracing.hooks.parallel`'s. A message from one rank to another is a broadcast in a group of these two, of
which both join, as gloo has it; ``send`` and ``recv`` are made of ``isend``, ``irecv`` and ``wait``. Of functional
collectives, which DTensors make, waits are seen alone, and of those in compiled graphs nothing: their bytes are, as
flows.
"""

from __future__ import annotations

import atexit
import inspect
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

from e2c_dl.trace.collectives import WORLD
from e2c_dl.trace.model import Collective, Phase
from e2c_dl.tracing.hooks.calls import end_graphs
from e2c_dl.tracing.hooks.groups import number_of, number_of_pair, takes_part
from e2c_dl.tracing.hooks.patches import Function, Patches, passed_over
from e2c_dl.tracing.hooks.unwaited import Joined, Polling, Unwaited
from e2c_dl.tracing.hooks.waits import hook_waits
from e2c_dl.tracing.regrouped import regrouped
from e2c_dl.tracing.rendezvous import StoreExchange

if TYPE_CHECKING:
    from e2c_dl.tracing.session import Session
    from e2c_dl.tracing.tracer import Tracer

KINDS = {
    "all_reduce": Collective.ALL_REDUCE,
    "all_reduce_coalesced": Collective.ALL_REDUCE,
    "reduce": Collective.REDUCE,
    "broadcast": Collective.BROADCAST,
    "all_gather": Collective.ALL_GATHER,
    "all_gather_into_tensor": Collective.ALL_GATHER,
    "all_gather_single": Collective.ALL_GATHER,
    "all_gather_coalesced": Collective.ALL_GATHER,
    "_all_gather_base": Collective.ALL_GATHER,
    "gather": Collective.GATHER,
    "scatter": Collective.SCATTER,
    "reduce_scatter": Collective.REDUCE_SCATTER,
    "reduce_scatter_tensor": Collective.REDUCE_SCATTER,
    "reduce_scatter_single": Collective.REDUCE_SCATTER,
    "_reduce_scatter_base": Collective.REDUCE_SCATTER,
    "all_to_all": Collective.ALL_TO_ALL,
    "all_to_all_single": Collective.ALL_TO_ALL,
    "barrier": Collective.BARRIER,
    "monitored_barrier": Collective.BARRIER,
}
DTENSORS = "a model is tensor parallel: it is not known which collectives of DTensors ranks wait for"


class Collectives:
    """Calls, and waits for what goes on since then."""

    def __init__(self, tracer: Tracer) -> None:
        self._tracer = tracer
        self.unwaited = Unwaited(tracer.limited)
        self._polling = Polling()
        self._calling: set[int] = set()  # threads within one: what it calls itself is a part of it

    @passed_over
    def call(
        self, kind: Collective, group: Any, nbytes: int, waits: bool, original: Function, args: Any, kwargs: Any
    ) -> Any:
        """``original(*args, **kwargs)``, recorded; ``waits``: for its result, and is not asked for it later."""
        session = self._tracer.session
        task = session.task() if session is not None else 0
        if session is None or task in self._calling or not takes_part(group):
            return original(*args, **kwargs)
        number = number_of(group)
        seq = session.next_seq(number)
        self._calling.add(task)
        start_ns = _enter(session, task, seq, number) if waits else session.clock()
        try:
            work = original(*args, **kwargs)
        finally:
            self._calling.discard(task)
            end_ns = _leave(session, task, start_ns, seq, number) if waits else session.clock()
        joined = Joined(start_ns, kind, seq, number, nbytes)
        if hasattr(type(work), "wait"):  # one within a group that is joined later refuses to be asked itself
            self.unwaited.hold(work, (joined,))
        elif waits or work is not None:  # a message among several that are told of together has no Work of its own
            record(session, joined, end_ns, task)
        return work

    @passed_over
    def wait(self, asked: Any, original: Function, args: Any, kwargs: Any) -> Any:
        """``original(asked, ...)``, recorded: a wait for what ``asked``, a Work or a Future, can be asked for."""
        session = self._tracer.session
        joined = self.unwaited.take(asked)
        task = session.task() if session is not None else 0
        if session is None or task in self._calling:
            return original(asked, *args, **kwargs)
        seq, group = (joined[-1].seq, joined[-1].group) if joined else (-1, WORLD)
        start_ns = _enter(session, task, seq, group)
        try:
            return original(asked, *args, **kwargs)
        finally:
            end_ns = _leave(session, task, start_ns, seq, group)
            for each in joined:
                record(session, each, end_ns, task)

    def asked(self, asked: Any, over: bool) -> None:
        """A script asks whether ``asked`` is over, as it may until it is."""
        session, joined = self._tracer.session, self.unwaited.of(asked)
        if session is None or not joined or (task := session.task()) in self._calling:
            return
        now_ns = session.clock()
        since_ns = now_ns if task else self._polling.asked(session.events, now_ns, over)
        if not over:
            return
        if since_ns < now_ns:
            session.note(session.entered, since_ns, Phase.AWAIT_COLLECTIVE, -1, joined[-1].seq, joined[-1].group)
            session.note(session.left, now_ns)
        for each in self.unwaited.take(asked):
            record(session, each, now_ns, task)


def install(tracer: Tracer, patches: Patches) -> None:
    """Hook torch.distributed's functions, Work.wait, and the making and unmaking of process groups."""
    import torch
    from torch import distributed

    if not distributed.is_available():
        return
    from torch.distributed import device_mesh
    from torch.distributed import distributed_c10d as c10d

    collectives = Collectives(tracer)
    unwaited = collectives.unwaited
    atexit.register(unwaited.end)
    patches.on_undo(lambda: atexit.unregister(unwaited.end))
    patches.on_undo(unwaited.forget)
    for name, kind in KINDS.items():
        if hasattr(c10d, name):
            patches.wrap(c10d, name, _timed(collectives, kind, torch.compiler.is_compiling), distributed)

    def initialised(original: Function) -> Function:
        def init(*args: Any, **kwargs: Any) -> None:
            original(*args, **kwargs)
            session = tracer.sign()
            session.hooked("torch.distributed")
            store = StoreExchange(c10d._get_default_store())
            regrouped(session, distributed.get_rank(), distributed.get_world_size(), store)
            tracer.opened(session)

        return init

    for name, peer in (("isend", "dst"), ("irecv", "src")):
        patches.wrap(c10d, name, _message(collectives, peer, torch.compiler.is_compiling), distributed)
    hook_waits(collectives, patches)
    if hasattr(c10d, "init_process_group"):  # init_device_mesh has the function by its name
        patches.wrap(c10d, "init_process_group", initialised, distributed, device_mesh)


def install_functional(tracer: Tracer, patches: Patches) -> None:
    """Hook the wait for a functional collective, as DTensor makes them, too; which one it is for is not known."""
    import torch
    from torch.distributed import _functional_collectives as functional

    collectives, is_compiling = Collectives(tracer), torch.compiler.is_compiling

    def waiting(original: Function) -> Function:
        def wait_tensor(tensor: Any) -> Any:
            if is_compiling():
                return original(tensor)
            return collectives.wait(tensor, original, (), {})

        return wait_tensor

    patches.wrap(functional, "wait_tensor", waiting)


def install_tensor_parallel(tracer: Tracer, patches: Patches) -> None:
    """Say what cannot be seen of a model once it is parallelized."""
    from torch.distributed.tensor.parallel import api

    def told(original: Function) -> Function:
        def parallelize_module(*args: Any, **kwargs: Any) -> Any:
            tracer.limited(DTENSORS)
            return original(*args, **kwargs)

        return parallelize_module

    patches.wrap(api, "parallelize_module", told)


def _timed(collectives: Collectives, kind: Collective, is_compiling: Any) -> Any:
    def around(original: Function) -> Function:
        names = list(inspect.signature(original).parameters)
        at = names.index("group") if "group" in names else len(names)
        later_at = names.index("async_op") if "async_op" in names else len(names)

        def call(*args: Any, **kwargs: Any) -> Any:
            if is_compiling():
                return original(*args, **kwargs)
            group = args[at] if len(args) > at else kwargs.get("group")
            later = args[later_at] if len(args) > later_at else kwargs.get("async_op", False)
            value = args[0] if args else next(iter(kwargs.values()), None)
            return collectives.call(kind, group, nbytes_of(value), not later, original, args, kwargs)

        end_graphs(call)
        return call

    return around


def _message(collectives: Collectives, peer: str, is_compiling: Any) -> Any:
    """``peer``, dst or src, is the other rank: its number among all, or as group_dst or group_src in the group.

    Of a message from whoever sends one nobody knows which of that rank's it is.
    """
    from torch import distributed

    def around(original: Function) -> Function:
        signature = inspect.signature(original)

        def call(*args: Any, **kwargs: Any) -> Any:
            try:
                told = signature.bind(*args, **kwargs).arguments
            except TypeError:
                return original(*args, **kwargs)  # which says it in its own words
            group, within = told.get("group"), told.get(f"group_{peer}")
            if is_compiling() or not takes_part(group) or (within is None and told.get(peer) is None):
                return original(*args, **kwargs)
            other = told[peer] if within is None else _of_all(within, group)
            own, tag = distributed.get_rank(), told.get("tag", 0)
            pair = number_of_pair(own, other, group, tag) if peer == "dst" else number_of_pair(other, own, group, tag)
            nbytes = nbytes_of(told["tensor"])
            return collectives.call(Collective.BROADCAST, pair, nbytes, False, original, args, kwargs)

        end_graphs(call)
        return call

    return around


def _of_all(rank: int, group: Any) -> int:
    """Among all ranks, that which is ``rank`` in ``group``."""
    from torch import distributed

    return rank if group is None else distributed.get_global_rank(group, rank)


def nbytes_of(value: Any) -> int:
    """Bytes of a tensor, or of all in a list (of lists) of them, or in a mapping; 0 of anything else."""
    if isinstance(value, (list, tuple)):
        return sum(map(nbytes_of, value))
    try:
        return int(value.numel()) * int(value.element_size())
    except (AttributeError, TypeError):
        return nbytes_of(list(value.values())) if isinstance(value, Mapping) else 0


def _enter(session: Session, task: int, seq: int, group: int) -> int:
    if task == 0:
        return session.enter(Phase.AWAIT_COLLECTIVE, seq=seq, peer_task=group)
    return session.clock()


def _leave(session: Session, task: int, start_ns: int, seq: int, group: int) -> int:
    if task == 0:
        return session.leave()
    end_ns = session.clock()
    session.record(Phase.AWAIT_COLLECTIVE, start_ns, end_ns, task=task, seq=seq, peer_task=group)
    return end_ns


def record(session: Session, joined: Joined, end_ns: int, task: int) -> None:
    """``joined`` was over at ``end_ns``, as ``task`` knows."""
    session.record(
        Phase.COLLECTIVE, joined.start_ns, end_ns, task=task, seq=joined.seq, nbytes=joined.nbytes,
        kind=joined.kind, peer_task=joined.group,
    )  # fmt: skip
