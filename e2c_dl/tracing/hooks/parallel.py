"""DistributedDataParallel: its buckets, when they are ready, and how long a rank waits for the others within backward.

Its all-reduce runs inside of backward, which so lasts equally long on every rank. What a rank computes itself ends when
its last gradient is complete; what is left until backward returns is AWAIT_COLLECTIVE. Which parameter is in which
bucket is asked of DDP, which orders them anew after the first pass; its communication hook stays the user's. To answer
it makes gradients, so that it is asked where nothing else needs memory: when it is built, and once its second pass is
over. Where it does not answer, nobody knows which of the others' collectives this rank's are.

A hook of the user's that reduces within other groups is believed: collectives are those of the first one it calls. A
rank without inputs (Join) takes part in the others' all-reduces, bucket by bucket as they do, until these are over.
"""

from __future__ import annotations

import weakref
from collections.abc import Callable, Mapping
from threading import get_ident
from typing import TYPE_CHECKING, Any

from e2c_dl.trace.model import Collective
from e2c_dl.tracing.hooks.backward import LEARNING, Backward, Readiness, backward_of, leave
from e2c_dl.tracing.hooks.calls import compiling_of, end_graphs
from e2c_dl.tracing.hooks.groups import number_of
from e2c_dl.tracing.hooks.outermost import outermost_of
from e2c_dl.tracing.hooks.patches import Function, Patches
from e2c_dl.tracing.lane import Told
from e2c_dl.tracing.numbers import UNCOUNTED, UNJOINED

if TYPE_CHECKING:
    from e2c_dl.tracing.session import Session
    from e2c_dl.tracing.tracer import Tracer

UNKNOWN = "DistributedDataParallel did not tell its buckets: this rank's collectives are not joined to the others'"
OTHER_GROUPS = "a communication hook reduces within other groups than DistributedDataParallel's: the first is told"
SHADOWED = "a rank without inputs (join) took part in the others' collectives: its waits for forwards have no cause"

Buffers = tuple[int, int, int]
"""How many a module has, their bytes, and the number of its group."""


class Parallel:
    """One DistributedDataParallel module."""

    def __init__(self, module: Any, tracer: Tracer, backward: Backward) -> None:
        from e2c_dl.tracing.session import Session

        self.readiness = Readiness(Session.clock)
        self._tracer, self._backward = tracer, backward
        self._module = weakref.ref(module)
        self._group = number_of(module.process_group)
        self._ready_ns: Callable[[], list[int]] = module.reducer.get_backward_stats
        self._noted: tuple[list[int], bool] = ([], False)  # when a pass began of which it is not sure
        self._calls: int | None = None  # in its group, when a pass began whose gradients a hook of the user's reduces
        self._passes = 0  # that it reduced, as far as it learns
        self._rebuilt = False  # its buckets are in their lasting order, and known
        self._settled = False  # of each bucket the last parameter is asked alone ...
        self._asks_all = False  # ... or all are again, as others may be last
        self._sure = False  # the newest pass was its own
        self._watched = outermost_of(tracer).of(module)
        self.attach()

    def attach(self) -> None:
        """Ask its parameters, from the beginning."""
        self._passes, self._rebuilt, self._settled, self._asks_all, self._sure = 0, False, False, False, False
        self._watch()

    def begins(self, session: Session) -> Told:
        """This pass is its own if it was called for it; else, and as long as it learns, that is decided at its end."""
        readiness, module, watched = self.readiness, self._module(), self._watched
        if len(readiness.at_ns) < len(readiness.nbytes) and self._sure and not self._asks_all:
            self._asks_all = True
            self._backward.then.append(readiness.ask_all)
        at_ns: dict[int, int] = {}
        readiness.at_ns = at_ns
        self._sure = watched.forwarded and self._settled and module is not None and module.require_forward_param_sync
        watched.forwarded = False
        if not self._sure:
            self._noted = self._notes(module)
            self._backward.unsure.append(self._decide)
        if module is not None and module._comm_hooks:
            self._calls = _calls(module)
            self._backward.unsure.append(self._regroup)
        return at_ns, readiness.nbytes, self._group, session.seqs.get(self._group, 0)

    def _decide(self, passes: list[Told]) -> None:
        """Whether it was, its reducer knows, which notes when each gradient was ready that it reduces.

        What else DDP says is of its newest forward, which may have kept no gradients, be of a pass that has been, or of
        another module with the same parameters.
        """
        at_ns = self.readiness.at_ns
        if self._noted == self._notes(self._module()):
            passes[:] = [(at_ns,) if told[0] is at_ns else told for told in passes]
        elif not self._settled:
            self._learn()

    def _regroup(self, passes: list[Told]) -> None:
        """Where a hook of the user's called nothing in DDP's group, it reduced within another, or not at all."""
        session, module, at_ns = self._tracer.session, self._module(), self.readiness.at_ns
        own = [place for place, told in enumerate(passes) if at_ns and told[0] is at_ns and len(told) > 1]
        if not own or session is None or module is None or self._calls is None or self._calls != _calls(module):
            return
        groups = () if session.passed is UNCOUNTED else tuple(session.meanwhile)
        if self._group not in groups:
            session.limited(OTHER_GROUPS)
            passes[own[0]] = (at_ns, self.readiness.nbytes, groups[0], 0) if groups else (at_ns,)

    def shadows(self, session: Session, act: Callable[[], object]) -> None:
        """``act`` takes part in the all-reduces of a pass that others make, as :meth:`begins` and its end tell of own.

        That DDP orders its buckets anew is told to nobody here: as long as it may, it is asked after each.
        """
        module, nbytes = self._module(), self.readiness.nbytes
        self.readiness.at_ns = at_ns = dict.fromkeys(range(len(nbytes)), session.clock())
        hooked = module is not None and bool(module._comm_hooks)
        if hooked:
            self._calls = _calls(module)
        session.count_passed()
        session.passed = UNCOUNTED
        act()
        passes: list[Told] = [(at_ns, nbytes, self._group, 0)]
        if hooked:
            self._regroup(passes)
        session.passed = session.numbered(passes)
        session.note(session.lane.reduce, (), session.clock(), session.passed)
        session.limited(SHADOWED)
        if not (self._rebuilt or self._settled):
            self._watch()
            self._rebuilt = self.readiness.nbytes != nbytes

    def _notes(self, module: Any) -> tuple[list[int], bool]:
        """Those of the reducer, and whether it has had the first pass of a static graph, of which it makes none."""
        return self._ready_ns(), getattr(module, "_static_graph_delay_allreduce_enqueued", False)

    def _learn(self) -> None:
        """One more pass was its own. With the forward behind the first one DDP has ordered its buckets anew."""
        self._passes += 1
        module = self._module()
        if module is not None and not self._rebuilt and self._passes > 1 and module._has_rebuilt_buckets:
            self._rebuilt, self._passes = True, 1
            self._backward.then.append(self._watch)
        elif self._passes > LEARNING:
            self._settled = True
            self._asks_all = module is not None and module.find_unused_parameters
            self._backward.then.append(self.readiness.ask_all if self._asks_all else self.readiness.settle)

    def _watch(self) -> None:
        """Ask the parameters of each bucket, as DDP itself has them now."""
        module = self._module()
        if module is None:
            return
        try:
            buckets = [list(bucket.parameters()) for bucket in module.reducer._get_zeros_like_grad_buckets()]
        except Exception as error:  # noqa: BLE001  # a script is never stopped by what only watches it
            buckets = [[each for each in module.parameters() if each.requires_grad]]
            self._lose(error)
        self.readiness.watch(buckets)

    def _lose(self, error: Exception) -> None:
        self._tracer.limited(f"{UNKNOWN}: {error}".partition("\n")[0])
        if (session := self._tracer.session) is not None:
            session.count_passed()
            session.seqs[self._group] = max(UNJOINED, session.seqs.get(self._group, 0))


def install(tracer: Tracer, patches: Patches) -> None:
    """Hook every DistributedDataParallel module, there is or will be."""
    from torch.nn.parallel import DistributedDataParallel

    backward = backward_of(tracer)
    buffers: dict[int, Buffers] = {}  # by module's id: asked once, since a model may have many
    modules: weakref.WeakKeyDictionary[Any, Parallel] = tracer.parts.setdefault("ddp", weakref.WeakKeyDictionary())

    def built(original: Function) -> Function:
        def init(self: Any, *args: Any, **kwargs: Any) -> None:
            original(self, *args, **kwargs)
            tracer.sign().hooked("DistributedDataParallel")
            if not hasattr(getattr(self, "reducer", None), "get_backward_stats"):
                tracer.limited(UNKNOWN)
                return
            modules[self] = parallel = Parallel(self, tracer, backward)
            weakref.finalize(self, leave, backward.reducing, parallel).atexit = False
            buffers.pop(id(self), None)  # another's, which is gone
            backward.reducing.append(parallel)

        return init

    patches.wrap(DistributedDataParallel, "__init__", built)
    patches.wrap(DistributedDataParallel, "__setstate__", built)  # of what is unpickled, or a copy
    patches.wrap(DistributedDataParallel, "_sync_module_buffers", _synchronized(tracer, buffers))
    patches.wrap(DistributedDataParallel, "_match_all_reduce_for_bwd_pass", _shadowing(tracer, modules))
    for parallel in modules.values():
        parallel.attach()
        backward.reducing.append(parallel)

    def undo() -> None:
        for parallel in modules.values():
            parallel.readiness.forget()
        backward.reducing[:] = [each for each in backward.reducing if not isinstance(each, Parallel)]

    patches.on_undo(undo)


def _synchronized(tracer: Tracer, buffers: dict[int, Buffers]) -> Callable[[Function], Function]:

    from e2c_dl.tracing.session import Session

    compiling, clock, broadcast = compiling_of(tracer), Session.clock, Collective.BROADCAST

    def synchronized(original: Function) -> Function:
        def sync_module_buffers(self: Any, authoritative_rank: int) -> Any:
            session = tracer.session
            if session is None or (compiling.looks and compiling.looks()):
                return original(self, authoritative_rank)
            known = buffers.get(id(self))
            if known is None or known[0] != len(self.modules_buffers):
                known = buffers[id(self)] = _buffers(self)
            _, nbytes, group = known
            if session.passed:
                session.count_passed()
            seqs = session.seqs
            seq = seqs.get(group, 0)  # as next_seq, a frame less: see Session
            seqs[group] = seq + 1
            start_ns = clock()
            try:
                return original(self, authoritative_rank)
            finally:
                session.events.append((session.awaited, start_ns, clock(), seq, nbytes, group, broadcast))

        end_graphs(sync_module_buffers)
        return sync_module_buffers

    return synchronized


def _shadowing(tracer: Tracer, modules: Mapping[Any, Parallel]) -> Callable[[Function], Function]:
    def around(original: Function) -> Function:
        def match_all_reduce(self: Any) -> None:
            session, parallel = tracer.session, modules.get(self)
            if session is None or parallel is None or get_ident() != session.main:
                original(self)
            else:
                parallel.shadows(session, lambda: original(self))

        end_graphs(match_all_reduce)
        return match_all_reduce

    return around


def _calls(module: Any) -> int | None:
    """Collectives so far in its group, as far as its backend counts them."""
    try:
        return int(module.process_group._get_sequence_number_for_group())
    except (AttributeError, RuntimeError):
        return None


def _buffers(module: Any) -> Buffers:
    sizes = [each.numel() * each.element_size() for each in module.modules_buffers]
    return len(sizes), sum(sizes), number_of(module.process_group)
