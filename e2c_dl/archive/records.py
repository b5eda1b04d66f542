"""Records that a worker leaves beside its trace, live or virtual: frozen, each with the format it is written in.

Every record decodes by :mod:`e2c_dl.codec`; :mod:`e2c_dl.archive.host_records` knows where each stands.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from enum import Enum
from signal import Signals
from typing import Any

from msgspec import Struct

from e2c_dl import formatting
from e2c_dl.trace.propagation.ports import PortFacts

OUTCOME_FORMAT = 2
FACTS_FORMAT = 2
NAMED = 3  # hosts that a line names; a list of hundreds would hide what is said


class Cause(str, Enum):
    """Why a worker ended, decided where that was raised: messages are for people, and never searched."""

    FINISHED = "finished"
    STOPPED = "stopped"  # somebody asked it, or another worker, to stop
    FAILED = "own failure"
    NOT_AS_REQUESTED = "not emulated as requested"  # and --strict
    ANOTHER = "another worker's failure"  # told over the control connection
    LOST_PEER = "lost peer"


class WorkerOutcome(Struct, frozen=True, kw_only=True):
    """How a worker ended: ``outcome.json``. ``reason`` is one line, empty if finished."""

    format: int = OUTCOME_FORMAT
    status: str = "failed"  # finished, stopped or failed: what people ask first; follows from the cause
    cause: Cause | None = None  # None: written in format 1, which did not say
    reason: str = ""
    rank: int  # -1: it could not find its place among the ranks
    origin: int | None = None  # the rank where it began, if that is known to be another
    iterations_done: int
    seconds: float  # of training, from the first iteration's start
    ended_s: float | None = None  # Unix time of its host's clock; not of a virtual one
    loss: float | None = None  # on the test samples, at the end; rank 0 only
    accuracy: float | None = None

    @classmethod
    def of(cls, cause: Cause, **known: Any) -> WorkerOutcome:
        """An outcome whose status follows from ``cause``."""
        status = cause.value if cause in (Cause.FINISHED, Cause.STOPPED) else "failed"
        return cls(status=status, cause=cause, **known)

    @property
    def is_consequence(self) -> bool:
        """Whether it ended because of another worker."""
        return self.origin is not None or self.cause in (Cause.ANOTHER, Cause.LOST_PEER)


class HostEnding(Struct, frozen=True, kw_only=True, omit_defaults=True):
    """How a host ended before the run released it: ``ending.json``; absent of hosts that did not."""

    format: int = 1
    at_s: float  # Unix time at which it was seen to be gone
    process: str = "first process"  # whose end was the host's: that one, or the sshd that it waits for
    status: int | None = None  # its exit status, if that is known
    signal: int | None = None  # what killed it, if that is known
    out_of_memory: bool = False  # whether the host's own limit of memory did
    memory_available_bytes: int | None = None  # of the machine, then
    pressure: dict[str, float] = {}  # cpu, memory, io -> % of the last 10 s that some process waited for it
    reason: str = ""  # where a testbed knows more than that it is gone

    def described(self) -> str:
        """In one sentence: ``its first process was killed by SIGKILL (the machine then: memory 20.1 GiB)``."""
        if self.reason:
            return self.reason
        how = "is gone" if self.status is None else f"exited with {self.status}"
        if self.signal is not None:
            how = f"was killed by {_signal_name(self.signal)}"
        if self.out_of_memory:
            how += ", for its limit of memory"
        then = [f"{name} pressure {percent:.0f} %" for name, percent in self.pressure.items()]
        if self.memory_available_bytes is not None:
            then.insert(0, f"{formatting.size(self.memory_available_bytes)} of memory available")
        machine = f" (the machine then: {', '.join(then)})" if then else ""
        return f"its {self.process} {how}{machine}"


def _signal_name(number: int) -> str:
    try:
        return Signals(number).name
    except ValueError:  # a number that this machine has no name for
        return f"signal {number}"


class Progress(Struct, frozen=True, kw_only=True):
    """Where training stands: a line of ``progress.jsonl``, which has no format of its own, but its run's.

    The line of the final evaluation has ``test_loss`` and no ``loss``.
    """

    rank: int = 0
    iteration: int  # finished ones
    iterations: int  # of this rank in all; 0: not known beforehand
    loss: float | None = None
    test_loss: float | None = None
    accuracy: float | None = None  # of the last evaluation, 0..1
    model: str | None = None  # whose parameters that was of; None: not evaluated, or an earlier version did not say
    elapsed_s: float
    remaining_s: float | None = None

    @classmethod
    def at(
        cls, iteration: int, iterations: int, elapsed_s: float, used: float, model: str | None, **known: Any
    ) -> Progress:
        """After ``iteration`` iterations in ``elapsed_s``, when ``used`` (0..1) of the budget is: the rest is expected
        to take as long as that. ``model``: whose parameters were evaluated, if any.

        What is not a number, as losses of shapes are, is not known.
        """
        known = {name: value for name, value in known.items() if value is None or not math.isnan(value)}
        remaining_s = round(elapsed_s * (1 - used) / used, 6) if used > 0 else None
        return cls(
            iteration=iteration, iterations=iterations, elapsed_s=round(elapsed_s, 6), remaining_s=remaining_s,
            model=model, **known,
        )  # fmt: skip


class Doing(Struct, frozen=True, kw_only=True):
    """A part of setting a run up that is under way, a line of ``setup.jsonl``.

    >>> Doing(what="measuring links", done=7, of=12).described()
    'measuring links: 7 of 12'
    """

    what: str
    done: int = 0
    of: int = 0  # 0: it is not counted
    waiting: tuple[str, ...] = ()  # hosts that have not come so far, where that is known

    def described(self) -> str:
        """In a few words, with at most NAMED hosts: ``importing torch: 4 of 6, waiting for fog-1, fog-2``."""
        counted = f"{self.what}: {self.done} of {self.of}" if self.of else self.what
        if not self.waiting or self.done == 0:
            return counted
        more = f" and {len(self.waiting) - NAMED} more" if len(self.waiting) > NAMED else ""
        return f"{counted}, waiting for {', '.join(self.waiting[:NAMED])}{more}"


class Noticed(Struct, frozen=True, kw_only=True):
    """Something that was found while a run was set up, and is worth reading: a line of ``setup.jsonl``."""

    noticed: str


class ComputeFacts(Struct, frozen=True, kw_only=True, omit_defaults=True):
    """How a host's computing was paced: seconds of a gradient's segments, at full speed."""

    calibrated_s: tuple[float, ...] | None = None  # measured by this host; not of a virtual one
    agreed_s: tuple[float, ...] = ()  # what it was paced by
    paced_by: str | None = None
    segments: tuple[str, ...] = ()
    bucket_sizes: tuple[int, ...] = ()
    tensor_shapes: tuple[tuple[tuple[int, ...], ...], ...] = ()  # of the tensors in each bucket; empty: not known
    speed: float | None = None  # of a core; None: not paced
    trial_s: float | None = None  # what a gradient took before training began: lower quartile; None: it was not tried
    designed_s: float | None = None  # what it takes by design; None: not known, as it is not paced

    @classmethod
    def of(
        cls, buckets: Sequence[slice], tensor_shapes: Sequence[Sequence[tuple[int, ...]]], **known: Any
    ) -> ComputeFacts:
        """Those of a gradient that comes in these ``buckets`` of a flat vector."""
        segments = ("forward", *(f"backward {bucket}" for bucket in range(len(buckets))))
        sizes = tuple(where.stop - where.start for where in buckets)
        shapes = tuple(tuple(each) for each in tensor_shapes)
        return cls(bucket_sizes=sizes, tensor_shapes=shapes, segments=segments, **known)


class Deployed(Struct, frozen=True, kw_only=True, omit_defaults=True):
    """What a worker was told, and put in force by itself, where no testbed of this program takes part."""

    address: str
    data_address: str
    data_device: str | None = None
    versions: dict[str, str] = {}  # of what deployed it, on the controller
    backend: str = "none"  # by which all hosts' links are emulated
    why: str = ""  # this host can no more than that; empty: it can
    failure: str = ""  # why its own links are not in force; empty: they are


class ProcessorFacts(Struct, frozen=True, kw_only=True):
    """What the kernel counted of the thread that trains, in seconds."""

    ran_s: float
    waited_s: float  # for a processor, which other threads had

    @property
    def waited_share(self) -> float:
        """Of the time in which it could have run."""
        ready_s = self.ran_s + self.waited_s
        return self.waited_s / ready_s if ready_s > 0 else 0.0


class HostFacts(Struct, frozen=True, kw_only=True, omit_defaults=True):
    """What a host is and how it was set up: ``facts.json``. What is not known is left out."""

    format: int = 1  # of a file that does not say
    host_name: str | None = None
    machine: str | None = None
    cpu_model: str | None = None
    cores: int | None = None
    usable_cores: int | None = None
    memory_bytes: int | None = None
    kernel: str | None = None
    distribution: str | None = None
    versions: dict[str, str] = {}
    torch: dict[str, Any] = {}
    mathematics: str | None = None  # real, or shapes: nothing was computed
    compute: ComputeFacts = ComputeFacts()
    emulation: dict[str, Any] = {}  # what became of it: agent, clock, ...
    deployed: Deployed | None = None  # None: by a testbed of this program, which has it on record
    congestion_control: dict[str, Any] = {}  # asked; in_force by peer
    buffers: dict[str, Any] = {}  # limits; at_start by peer
    gpu: (
        dict[str, Any] | None
    ) = {}  # null in format 1; device: the rank's own; gpus of the host by NVML, or unknown: why there are none
    sockets: dict[str, Any] = {}  # rounds in which they were looked at, cpu_s of all of them, dropped samples
    ports: PortFacts | None = None  # what its ports counted while a script was traced
    processor: ProcessorFacts | None = None  # how its rank shared processors with others meanwhile
    wall_clock: tuple[tuple[int, int], ...] = ()  # of a traced script's host: own clock, time of day, ns
    timekeeping: dict[str, Any] = {}  # what keeps its wall clock, as the kernel, chrony, systemd and ptp4l say
    timekeeping_at_end: dict[str, Any] = {}  # the same after training
