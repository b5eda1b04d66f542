"""What follows what in a training step of data- and pipeline-parallel jobs, by kind of operation.

::

    one pipeline stage        forward-recv   gather
                                      \\       |                             (chains: computing; each kind of send and
    stage - 1: forward-send = forward-recv -> forward ... -> backward -> ...  receive; gathers and reduce-scatters)
                                                 \\              \\
                                             forward-send    backward-send = backward-recv of stage - 1
    after the last computing:  gc -> layernorm -> embedding -> reduce-scatters -> clip -> optimizer
    overlapped with backward:  reduce-scatters, gc -> layernorm -> embedding -> separate -> clip -> optimizer

= joins two ends of one transfer: both last from when the later of the two was ready. Collectives join data-parallel
ranks in the same way; clipping joins stages, too; embedding gradients join the first stage and the last.

Source: Lin et al., OSDI'25, section 3 and the traces published with it; a job's operations are those of Megatron-LM.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from itertools import pairwise

from e2c_dl.errors import AnalysisError

FORWARD, BACKWARD, GC, OPTIMIZER = "forward-compute", "backward-compute", "gc", "optimizer"
COMPUTING = frozenset({FORWARD, BACKWARD, GC, OPTIMIZER})
TRANSFERS = {  # kind -> (its peer's, by how many stages its peer is further on)
    "forward-send": ("forward-recv", 1),
    "forward-recv": ("forward-send", -1),
    "backward-send": ("backward-recv", -1),
    "backward-recv": ("backward-send", 1),
}
GATHER, SCATTER, SEPARATE = "params-all-gather", "grads-reduce-scatter", "separate-grads-all-reduce"
LAYERNORM, EMBEDDING, CLIP = "layernorm-grads-all-reduce", "embedding-grads-all-reduce", "optimizer-clip-main-grad"
ACROSS_RANKS = frozenset({GATHER, SCATTER, SEPARATE, CLIP})
KINDS = COMPUTING | TRANSFERS.keys() | ACROSS_RANKS | {LAYERNORM, EMBEDDING}

CLOCK_ERROR_S = 5e-5
"""Of two clocks: a transfer may seem to begin, or end, this much on the wrong side of a computation."""


@dataclass(frozen=True, kw_only=True)
class Op:
    """One operation of a step, as its first recording has it."""

    number: int
    kind: str
    seq: int  # among those of its kind and stage, in order of their starts
    stage: int
    part: int  # of the stage's model chunks; -1: of none
    chunk: int  # of the whole model's; -1: of none
    start_s: float
    end_s: float


@dataclass(frozen=True, kw_only=True)
class Join:
    """Operations (numbers) that last from when the last of them is ready; ``ranks``: of all data-parallel ranks."""

    members: tuple[int, ...]
    ranks: bool


@dataclass(kw_only=True)
class Dependencies:
    """Of one step: ``follows`` holds (earlier, later) numbers, ``joins`` every communication exactly once."""

    follows: list[tuple[int, int]] = field(default_factory=list)
    joins: list[Join] = field(default_factory=list)

    def chain(self, ops: Iterable[Op]) -> None:
        self.follows += [(one.number, other.number) for one, other in pairwise(ops)]

    def after(self, later: Op, *earlier: Op) -> None:
        self.follows += [(each.number, later.number) for each in earlier]


class _Stage:
    """One stage's operations, in order of their starts."""

    def __init__(self, ops: Sequence[Op], stage: int) -> None:
        self.number = stage
        self._ops = sorted((op for op in ops if op.stage == stage), key=lambda op: (op.start_s, op.seq, op.kind))
        self.computing = self.of(FORWARD, BACKWARD)
        if not self.computing:
            raise AnalysisError(f"trace: stage {stage} computes nothing; record all stages")

    def of(self, *kinds: str) -> list[Op]:
        return [op for op in self._ops if op.kind in kinds]

    def numbered(self, kind: str) -> dict[int, Op]:
        return {op.seq: op for op in self._ops if op.kind == kind}


def dependencies(ops: Sequence[Op]) -> Dependencies:
    """What follows what among ``ops``, those of one step and one data-parallel rank.

    Raises: AnalysisError, if they are not those of such a job.
    """
    found = Dependencies()
    stages = [_Stage(ops, stage) for stage in range(max(op.stage for op in ops) + 1)]
    _transfers(found, stages)
    for stage in stages:
        found.chain(stage.computing)
        for kind in TRANSFERS:
            found.chain(stage.of(kind))
        _first_backward(found, stage)
        found.chain(stage.of(GATHER, SCATTER))
        _gathers(found, stage)
        _ending(found, stage, at_an_end=stage.number in (0, len(stages) - 1))
    _collectives(found, stages)
    return found


def _transfers(found: Dependencies, stages: Sequence[_Stage]) -> None:
    """Sends and receives beside the computing that they serve, and joined to their peers."""
    ends: dict[frozenset[tuple[str, int, int]], list[Op]] = {}
    chunks = len(stages) * (1 + max(op.part for stage in stages for op in stage.computing))
    for stage in stages:
        for kind, (peer_kind, further) in TRANSFERS.items():
            paired = 0
            computing = stage.numbered(FORWARD if kind.startswith("forward") else BACKWARD)
            served = _served(stage, kind, computing, len(stages))
            for op in stage.of(kind):
                computed = served.get(op.number)
                if computed is not None:
                    _beside(found, op, computed, computing)
                if computed is None or not 0 <= computed.chunk + further < chunks:  # nobody is there to send to
                    found.joins.append(Join(members=(op.number,), ranks=False))
                    continue
                peer = (stage.number + further) % len(stages)
                key = frozenset({(kind, paired, stage.number), (peer_kind, paired, peer)})
                ends.setdefault(key, []).append(op)
                paired += 1
    for both in ends.values():
        if len(both) != 2:
            raise AnalysisError(f"trace: {both[0].kind} {both[0].seq} of stage {both[0].stage} has no other end")
        found.joins.append(Join(members=tuple(op.number for op in both), ranks=False))


def _served(stage: _Stage, kind: str, computing: dict[int, Op], stages: int) -> dict[int, Op]:
    """Number of a transfer -> the computation that it brings to or takes from.

    Receives after the last computation's start, and sends before the first one's end, were recorded and not made.
    """
    receives = kind.endswith("recv")
    if receives:
        latest_s = max((op.start_s for op in computing.values()), default=0.0) + CLOCK_ERROR_S
        made = [op for op in stage.of(kind) if op.start_s <= latest_s]
    else:
        earliest_s = min((op.end_s for op in computing.values()), default=0.0) - CLOCK_ERROR_S
        made = [op for op in stage.of(kind) if op.end_s >= earliest_s]
    lacking = len(computing) - len(made)
    # At the ends of the pipeline there is nobody, or the first receive of the first chunk was left out.
    may_lack = (0, 1, len(computing)) if stage.number in (0, stages - 1) else (0,)
    if lacking not in may_lack:
        raise AnalysisError(
            f"trace: stage {stage.number} has {len(made)} {kind} for {len(computing)} computations; record all of them"
        )
    first = 1 if receives and lacking == 1 and made else 0
    return {op.number: computing[first + place] for place, op in enumerate(made)}


def _beside(found: Dependencies, op: Op, computed: Op, computing: dict[int, Op]) -> None:
    """A send follows its computation; a receive the computation before its own, which follows it."""
    if op.kind.endswith("send"):
        found.after(op, computed)
        return
    found.after(computed, op)
    if computed.seq > 0:
        found.after(op, computing[computed.seq - 1])


def _first_backward(found: Dependencies, stage: _Stage) -> None:
    """The first transfers of gradients follow the last forward computation but one before the first backward."""
    place = next((place for place, op in enumerate(stage.computing) if op.kind == BACKWARD), 0)
    if place < 2:  # without a pipeline
        return
    for kind in ("backward-recv", "backward-send"):
        first = stage.numbered(kind).get(0)
        if first is not None:
            found.after(first, stage.computing[place - 2])


def _gathers(found: Dependencies, stage: _Stage) -> None:
    """The first forward computation of a model chunk follows the last gather of its parameters."""
    last = {op.part: op for op in sorted(stage.of(GATHER), key=lambda op: op.seq)}
    for part, gather in last.items():
        first = next((op for op in stage.of(FORWARD) if op.part == part), None)
        if first is not None:
            found.after(first, gather)


def _ending(found: Dependencies, stage: _Stage, *, at_an_end: bool) -> None:
    """What follows the last computation of a step, one after another; what was not recorded is left out."""
    last = max(stage.computing, key=lambda op: op.end_s)
    scatters = sorted(stage.of(SCATTER), key=lambda op: op.seq)
    embedding = stage.of(EMBEDDING) if at_an_end else []
    if stage.of(SEPARATE):  # reduce-scatters overlap with backward
        first = {op.part: op for op in reversed(scatters)}
        for part, scatter in first.items():
            backward = [op for op in stage.of(BACKWARD) if op.part == part]
            found.after(scatter, *sorted(backward, key=lambda op: op.end_s)[-1:])
        middle = [*stage.of(LAYERNORM), *embedding, *stage.of(SEPARATE)]
        if scatters:
            found.after(middle[0], scatters[-1])
    else:
        middle = [*stage.of(LAYERNORM), *embedding, *scatters]
    found.chain([last, *stage.of(GC), *middle, *stage.of(CLIP), *stage.of(OPTIMIZER)])


def _collectives(found: Dependencies, stages: Sequence[_Stage]) -> None:
    for stage in stages:
        for op in stage.of(GATHER, SCATTER, SEPARATE):
            found.joins.append(Join(members=(op.number,), ranks=True))
    ends = {stage.number: stage for stage in (stages[0], stages[-1])}.values()
    for several, ranks in ((_together(ends, EMBEDDING), False), (_together(stages, CLIP), True)):
        found.joins += [Join(members=tuple(op.number for op in ops), ranks=ranks) for ops in several]


def _together(stages: Iterable[_Stage], kind: str) -> list[list[Op]]:
    """The operations of ``kind`` that ``stages`` do together: one list per number among them."""
    together: dict[int, list[Op]] = {}
    for stage in stages:
        for seq, op in stage.numbered(kind).items():
            together.setdefault(seq, []).append(op)
    return list(together.values())
