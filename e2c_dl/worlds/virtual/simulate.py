"""One training run in virtual time: values go in, a Result and spans come out; nothing is read, nobody waits.

::

    hosts, links, strategy ---> simulate ---> Result(end_ns, ...)          spans, rank by rank, in ``sink``

With ``computes`` gradients are real, and the strategy trains; without, only shapes travel, and nothing is computed: a
run of thousands of ranks. The same values and seed give the same spans, to the byte, wherever they run (with real
gradients: the same times and messages, unless the strategy's choices depend on values).
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from types import MappingProxyType

from e2c_dl.errors import InputError, PeerLost
from e2c_dl.strategies.base import Compute, Strategy, Worker
from e2c_dl.worlds.allotment import Allotment, Equal
from e2c_dl.worlds.giving_up import GIVE_UP_S
from e2c_dl.worlds.virtual.computing import pace_of
from e2c_dl.worlds.virtual.judging import Judging
from e2c_dl.worlds.virtual.kernel import Kernel
from e2c_dl.worlds.virtual.links import LinkModel, RankPair, SharedRate
from e2c_dl.worlds.virtual.messenger import Messenger
from e2c_dl.worlds.virtual.profile import HostModel
from e2c_dl.worlds.virtual.setting import OnIteration, Setting, SimulatedIteration
from e2c_dl.worlds.virtual.shape import ShapeCompute
from e2c_dl.worlds.virtual.shared import Fluid, SharedWire
from e2c_dl.worlds.virtual.sinks import Sink
from e2c_dl.worlds.virtual.tcp.bottleneck import SharedQueue
from e2c_dl.worlds.virtual.tcp.watch import Watches
from e2c_dl.worlds.virtual.tcp.wire import TcpWire
from e2c_dl.worlds.virtual.wire import Wire
from e2c_dl.worlds.virtual.worker import VirtualWorker

MOST_RANKS = 1 << 15
"""A span's src and dst have 16 bits."""

_UNSHAPED = LinkModel()
PENDING_RECORDS = 1 << 18
"""Records of all ranks together that may wait in memory: some 26 MB."""
_LEAST_PENDING = 32


@dataclass(frozen=True, kw_only=True)
class Result:
    """How a simulated run ended."""

    end_ns: int  # when the last rank's strategy returned, or was killed; messages may have arrived later
    killed: tuple[int, ...]  # ranks that were killed before their strategy had returned
    messages: int  # sent
    samples: tuple[int, ...]  # in each rank's last batch


def simulate(
    strategy: Callable[[], Strategy], *, hosts: Sequence[HostModel], links: Mapping[RankPair, LinkModel], sink: Sink,
    iterations: int, seed: int, bottlenecks: Sequence[SharedRate] = (), computes: Sequence[Compute] | None = None,
    evaluate_every: int = 0, checked: bool = True, on_progress: Callable[[SimulatedIteration], None] | None = None,
    as_seen: Callable[[VirtualWorker], Worker] | None = None, on_iteration: OnIteration | None = None,
    unsteady: Collection[RankPair] = (), on_end: Callable[[int], None] | None = None,
    allotment: Allotment | None = None, judging: Judging | None = None,
    on_kill: Callable[[int], None] | None = None,
) -> Result:  # fmt: skip
    """Run one ``strategy()`` per rank to its end on ``hosts`` (by rank) over ``links``; others are not shaped.

    ::

        spans = InMemory()
        hosts = [HostModel(name=f"edge-{rank}", profile=profile, samples=32) for rank in range(2)]
        links = {(0, 1): LinkModel(rate_bps=1e7, delay_s=0.01)}
        simulate(Allreduce, hosts=hosts, links=links, sink=spans, iterations=10, seed=1).end_ns   e.g. 1_204_000_000
        spans.spans(0)                                                                            rank 0's records

    ``allotment`` says who may begin another iteration, instead of ``iterations`` for each. ``on_iteration`` says what
    begins with an iteration of a rank; links that it ever names are ``unsteady``, and so are those from ranks that it
    ever pauses.
    ``as_seen`` wraps the worker that a strategy sees. With ``checked``, a payload that changes before it has left, and
    parameters that change while their gradient is computed, are errors: they would train differently live. ``on_end``
    hears at what time, in ns, the run ended, also of one that fails. ``judging`` looks on, and ranks hear of it.
    ``on_kill`` hears of a rank that is killed; unless it raises, the others go on.

    Raises: InputError; TrainingError, what a strategy raises, and PeerLost where it does not handle one: what was
    recorded until then is in ``sink``.
    """
    if not 0 < len(hosts) <= MOST_RANKS or (computes is not None and len(computes) != len(hosts)):
        raise InputError(f"a world of {len(hosts)} hosts: name 1 to {MOST_RANKS}, and as many computes, if any")
    setting = Setting(
        layers=tuple(host.layer for host in hosts), samples=tuple(host.samples for host in hosts),
        allotment=Equal(iterations) if allotment is None else allotment,
        evaluate_every=evaluate_every, seed=seed, checked=checked, on_progress=on_progress, on_iteration=on_iteration,
        judging=judging, on_kill=on_kill,
    )  # fmt: skip
    sink.open([(host.name, host.layer) for host in hosts])
    simulation = _Simulation(setting, hosts, links, bottlenecks, unsteady, computes, sink)
    return simulation.run(strategy, as_seen, on_end)


class _Simulation:
    """The ranks of one run, and the wires between them, which are made when they are first used."""

    def __init__(
        self, setting: Setting, hosts: Sequence[HostModel], links: Mapping[RankPair, LinkModel],
        bottlenecks: Sequence[SharedRate], unsteady: Collection[RankPair], computes: Sequence[Compute] | None,
        sink: Sink,
    ) -> None:  # fmt: skip
        self._kernel = Kernel()
        self._setting, self._hosts, self._links, self._sink = setting, hosts, MappingProxyType(dict(links)), sink
        ideal, over_tcp = _apart(bottlenecks, links)
        self._fluid, self._unsteady = Fluid(self._kernel, ideal), frozenset(unsteady)
        self._queues: dict[RankPair, SharedQueue] = {}
        for each in over_tcp:
            self._queues |= dict.fromkeys(each.links, SharedQueue(self._kernel, each))
        self._capacity = max(_LEAST_PENDING, PENDING_RECORDS // len(hosts))  # per rank: the sum is bounded
        self._unfinished = len(hosts)
        self._workers = [self._worker(rank, computes) for rank in range(len(hosts))]

    def run(
        self, strategy: Callable[[], Strategy], as_seen: Callable[[VirtualWorker], Worker] | None,
        on_end: Callable[[int], None] | None,
    ) -> Result:  # fmt: skip
        kernel = self._kernel
        for worker, host in zip(self._workers, self._hosts, strict=True):
            worker.start(strategy(), as_seen(worker) if as_seen else worker)
            if host.killed_at_s is not None:
                kernel.at(round(host.killed_at_s * 1e9), worker.kill, None)
        self._watches = Watches(kernel, self._links, partial(self._lost, strategy()))
        try:
            end_ns = self._train(on_end)
            kernel.cancel_all()  # background tasks have served until here
            kernel.drain()  # what is on its way still arrives, and leaves its span
        finally:
            kernel.cancel_all()
            for worker in self._workers:
                self._write(worker)
        killed = tuple(worker.rank for worker in self._workers if worker.killed)
        messages = sum(wire.begun for worker in self._workers for wire in worker.wires.values())
        samples = tuple(worker.samples for worker in self._workers)
        return Result(end_ns=end_ns, killed=killed, messages=messages, samples=samples)

    def _train(self, on_end: Callable[[int], None] | None) -> int:
        """When all ranks had ended, in ns."""
        try:
            self._kernel.run(lambda: self._unfinished > 0)
        finally:
            if on_end is not None:
                on_end(self._kernel.now_ns)
        return self._kernel.now_ns

    def _lost(self, strategy: Strategy, src: int, dst: int) -> None:
        """The link was down for too long: its ends lose each other, if ``strategy`` has them connected."""
        if {(src, dst), (dst, src)} & set(strategy.used_links(self._setting.layers)):
            for end, other in ((src, dst), (dst, src)):
                why = PeerLost(other, f"it gave no sign of life for {GIVE_UP_S:g} s")
                self._workers[end].lose(why, orderly=False)

    def _worker(self, rank: int, computes: Sequence[Compute] | None) -> VirtualWorker:
        host = self._hosts[rank]
        profile = host.profile
        compute: Compute
        if computes is None:
            compute = ShapeCompute(
                length=profile.parameters, dtype=profile.dtype, buckets=profile.slices,
                tensor_shapes=profile.tensor_shapes,
            )  # fmt: skip
        else:
            compute = computes[rank]
            if len(compute.buckets) != len(profile.buckets):
                raise InputError(
                    f"rank {rank}: its model has {len(compute.buckets)} buckets, the profile {len(profile.buckets)}; "
                    "calibrate with this model and bucket size"
                )
        pace = pace_of(host, rank=rank, seed=self._setting.seed)
        return VirtualWorker(
            self._kernel, self._setting, rank=rank, compute=compute, pace=pace, open_wire=self._wire,
            flush=self._flush, ended=self._ended, changed=self._changed,
        )  # fmt: skip

    def _wire(self, worker: Messenger, dst: int) -> Wire:
        src = worker.rank
        model = self._links.get((src, dst), _UNSHAPED)
        round_trip_s = model.delay_s + self._links.get((dst, src), model).delay_s  # ways may differ
        fluid = None if model.tcp else self._shared_by(src, dst)
        kind = TcpWire if model.tcp else Wire if fluid is None else SharedWire
        wire = kind(
            self._kernel, model, src=src, dst=dst, round_trip_s=round_trip_s, seed=self._setting.seed,
            record=worker.record, receiver=self._workers[dst],
        )  # fmt: skip
        if isinstance(wire, TcpWire) and model.tcp is not None:  # the second, here and below, for the type checker
            queue, steady = self._queues.get((src, dst)), not self._stops(src, dst)
            wire.connect(model.tcp, worker, queue, steady=steady, seed=self._setting.seed)
        elif isinstance(wire, SharedWire) and fluid is not None:
            wire.share(fluid)
        return wire

    def _shared_by(self, src: int, dst: int) -> Fluid | None:
        """What the link's rate depends on, if that is not known beforehand."""
        if (src, dst) in self._fluid.flows:
            return self._fluid
        # None: times are known as a message begins
        return Fluid(self._kernel, (), (src, dst)) if self._stops(src, dst) else None

    def _stops(self, src: int, dst: int) -> bool:
        """Whether the link may change, or its sender stop, in ways that are not known beforehand."""
        return (src, dst) in self._unsteady or bool(self._hosts[src].pauses)

    def _changed(self, pairs: Sequence[RankPair]) -> None:
        for src, dst in pairs:
            wire = self._workers[src].wires.get(dst)
            if wire is not None:
                wire.recondition()
            self._watches.renew((src, dst))

    def _ended(self) -> None:
        self._unfinished -= 1

    def _flush(self, worker: VirtualWorker) -> None:
        if len(worker.records) >= self._capacity:
            self._write(worker)
        judging = self._setting.judging
        if judging is not None and judging.due(self._kernel.now_ns):
            for each in self._workers:
                self._write(each)
            judging.look(self._kernel.now_ns)

    def _write(self, worker: VirtualWorker) -> None:
        records = b"".join(worker.records)
        worker.records.clear()
        self._sink.write(worker.rank, records)


def _apart(
    bottlenecks: Sequence[SharedRate], links: Mapping[RankPair, LinkModel]
) -> tuple[list[SharedRate], list[SharedRate]]:
    """(those of ideal links, those of links with a tcp). Raises: InputError for one that has both."""
    found: tuple[list[SharedRate], list[SharedRate]] = [], []
    for each in bottlenecks:
        over_tcp = {links.get(pair, _UNSHAPED).tcp is not None for pair in each.links}
        if len(over_tcp) > 1:
            raise InputError(f"bottleneck of {each.links}: give all of its links a tcp, or none of them")
        found[True in over_tcp].append(each)
    return found
