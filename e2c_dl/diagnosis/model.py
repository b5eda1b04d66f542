"""What an analysis says: one frozen Report, every number with its unit and the definition it follows.

Two questions are kept apart. *Bottleneck*: the element (one host's compute, one directed link, or a rate that links
share) whose speed-up would save most; it always exists, and is often slow by design. *Culprit*: an element that departs
from its reference: what the scenario asked for, at every moment. A culprit is *material* if a run without the departure
is at least 5 % faster.

Worked example: a link designed for 40 Mbit/s carries its messages at 8. Its ``slowdown`` is 5.0; the replay with its
messages at 40 Mbit/s ends after 31 s instead of 52 s, so ``saved_s`` is 21 and it is material: a culprit. If the
scenario itself had asked for 8 Mbit/s, the same link would be the bottleneck and no culprit.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from enum import Enum

from e2c_dl.scenario.model import Schedules
from e2c_dl.scenario.schedule import Schedule
from e2c_dl.topology import Topology
from e2c_dl.trace.model import State

MATERIAL_SPEEDUP = 1.05
"""A departure is material if the run without it is at least this many times faster."""


class ElementKind(Enum):
    """What can be slow."""

    HOST = "host"  # its compute
    LINK = "link"  # directed
    SHARED = "shared bottleneck"  # several links' one rate


@dataclass(frozen=True, kw_only=True)
class Element:
    """Something that can be slow. For a host or a shared bottleneck ``dst`` is None."""

    kind: ElementKind
    src: str  # the host, the link's source, or the bottleneck's name
    dst: str | None = None

    def __str__(self) -> str:
        return self.src if self.dst is None else f"{self.src} -> {self.dst}"


@dataclass(frozen=True, kw_only=True)
class Reference:
    """What the scenario asked for, which departures are judged against. It does not know what was injected."""

    topology: Topology
    compute_factors: Mapping[str, Schedule]  # host -> times slower by design than the reference host, heat included
    batch_sizes: Mapping[str, int]  # host -> samples per iteration
    batches_change: bool = False  # with the hosts' speed: then these are the first
    hardware: Mapping[str, str] = field(default_factory=dict)  # host -> class; hosts of one class are comparable
    compute_valid: bool = True  # False: cores were oversubscribed, no verdict on compute may be given
    schedules: Schedules = field(default_factory=Schedules)  # how links and bottlenecks change by design
    network_emulated: bool = True  # False: links are as they are, and have no asked-for quality


@dataclass(frozen=True, kw_only=True)
class Finding:
    """One element, how far it departs from its reference, and what restoring it would save."""

    element: Element
    slowdown: float  # observed / asked for, of its median iteration (host) or message (link); 1.0 is as asked
    observed: float  # s per iteration (host: compute), or bit/s (link: median rate of its messages)
    expected: float  # same unit; of an element that only stood still both are 0.0
    saved_s: float  # replayed run time now minus with this element as asked for
    speedup: float  # replayed run time now / with this element as asked for
    material: bool  # speedup or joint_speedup >= MATERIAL_SPEEDUP
    evidence: str  # a sentence with the figures, for people
    joint_speedup: float = 1.0  # the same when every other departure is as asked already: two can hide each other
    joint_saved_s: float = 0.0  # saved then
    stalled_s: float = 0.0  # in which it stood still


@dataclass(frozen=True, kw_only=True)
class Bottleneck:
    """One element and what making it twice as fast would save. Sorted, the first is *the* bottleneck."""

    element: Element
    saved_s: float
    speedup: float


@dataclass(frozen=True, kw_only=True)
class HostSummary:
    """Where one worker's time went."""

    host: str
    rank: int
    layer: str
    states_s: Mapping[State, float]  # seconds in each state; they sum to wall_s
    wall_s: float
    compute_per_iteration_s: float  # median
    complete: bool  # False: its trace breaks off


@dataclass(frozen=True, kw_only=True)
class LinkSummary:
    """What one directed link carried."""

    src: str
    dst: str
    messages: int
    sent_bytes: int
    received_bytes: int  # equal to sent_bytes, unless the run broke off
    rate_bps: float  # median over messages: bits per second while the message was being serialised
    transfer_s: float  # median time from the first byte's departure to the last byte's arrival


@dataclass(frozen=True, kw_only=True)
class Report:
    """Everything an analysis found. ``to_json``-able with dataclasses.asdict plus enum values."""

    iterations: int
    run_s: float  # from the first rank's first iteration to the last rank's end
    iteration_s: float  # median over iterations of the slowest rank's time
    replay_error: float  # |replayed - measured| / measured run time, of the unmodified trace
    hosts: tuple[HostSummary, ...]
    links: tuple[LinkSummary, ...]
    bottlenecks: tuple[Bottleneck, ...]  # most saving first
    findings: tuple[Finding, ...]  # every departure found, most saving first
    culprits: tuple[Finding, ...]  # the material ones among them
    clock_uncertainty_s: float  # worst over ranks
    limitations: tuple[str, ...]  # what the reader must know before believing a figure
