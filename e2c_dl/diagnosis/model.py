"""Result of an analysis: one frozen Report, every number with its unit and the definition it follows.

Two questions are kept apart. *Bottleneck*: the element (one host's compute, one directed link, or a rate that links
share) whose speed-up would save most; it always exists, and is often slow by design. *Culprit*: an element that departs
from its reference: what the scenario designed, at every moment. A culprit is *material* if a run without the departure
is at least 5 % faster.

Worked example: a link designed for 40 Mbit/s carries its messages at 8. Its ``slowdown`` is 5.0; the replay with its
messages at 40 Mbit/s ends after 31 s instead of 52 s, so ``saved_s`` is 21 and it is material: a culprit. If the
scenario itself had designed 8 Mbit/s, the same link would be the bottleneck and no culprit.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from enum import Enum
from typing import Any

import msgspec

from e2c_dl import typed
from e2c_dl.diagnosis.stretches import Stretches
from e2c_dl.errors import ArchiveError
from e2c_dl.trace.model import State
from e2c_dl.trace.staleness import Staleness

REPORT_FORMAT = 4
"""Of report.json; one more whenever a key changes its meaning or name."""

MATERIAL_SPEEDUP = 1.05
"""A departure is material if the run without it is at least this many times faster."""

STEADY = 0.01
"""Of the longest of several times: none that are no further apart hang on chance."""

MOST_UNKNOWN = 0.5
"""Of the longest path: with more of no known cause, a replay does not tell what a departure costs."""

DESIGN = "designed"
EXPECTED = "expected"
"""By peers and by an element's own past."""

NAMED = 3
"""Of more links or hosts than this, a sentence names as many: nobody reads sixty."""


class ElementKind(Enum):
    """What can be slow."""

    HOST = "host"  # its compute
    LINK = "link"  # directed
    SHARED = "shared bottleneck"  # several links' one rate
    GROUP = "group"  # several hosts or links that have something in common


class Part(Enum):
    """What of an element departs: a phase of a host, a quality of a link."""

    COMPUTE = "compute"  # forward and backward
    DATA = "data loading"
    STEP = "step"
    REDUCE = "reduce"
    EVALUATION = "evaluation"
    CHECKPOINT = "checkpoint"
    COPY = "copies"  # between a host's memory and its device's
    PROCESSOR = "waits for a processor"  # that other programs have, or a quota withholds
    OTHER = "work that no phase names"  # of a script, such as data that are loaded by hand
    RATE = "rate"
    DELAY = "delay"
    RATE_OR_DELAY = "rate or delay"  # its messages, alike in size and apart in time, do not tell which
    RATE_DELAY_OR_LOSS = "rate, delay or loss"  # of so few messages nothing tells which
    LOSS = "loss"  # few messages late by far, as those are whose segments are sent again
    SENDER = "its sender"  # whose program, or send buffer, gives the link too little at a time
    RECEIVER = "its receiver"  # whose program reads too slowly
    STALLED = "stalled"  # it carried or did nothing


@dataclass(frozen=True, kw_only=True)
class Element:
    """Something that can be slow. ``dst`` is None, but for a link."""

    kind: ElementKind
    src: str  # the host, the link's source, or the name of the bottleneck or group
    dst: str | None = None

    def __str__(self) -> str:
        return self.src if self.dst is None else f"{self.src} -> {self.dst}"


@dataclass(frozen=True, kw_only=True)
class Finding:
    """One element, how far it departs from its reference, and what restoring it would save."""

    element: Element
    part: Part  # of several, the one that lasted longest beyond its reference
    when: Stretches
    slowdown: float  # observed / expected, in those stretches; 1.0: it only stalled
    observed: float  # s per iteration (host), or bit/s (link), in those stretches
    expected: float  # same unit; of an element that only stalled both are 0.0
    saved_s: float  # replayed run time now minus with this element as designed
    speedup: float  # replayed run time now / with this element as designed
    material: bool  # speedup or joint_speedup >= MATERIAL_SPEEDUP
    evidence: str  # a sentence with the figures, for people
    joint_speedup: float = 1.0  # the same when every other departure is as designed already: two can hide each other
    joint_saved_s: float = 0.0  # saved then
    saved_spread_s: float = 0.0  # standard deviation of ``saved_s`` over runs by chance, of which that is the mean
    stalled_s: float = 0.0  # while it carried or did nothing
    members: tuple[Element, ...] = ()  # of a group

    @property
    def elements(self) -> tuple[Element, ...]:
        """Hosts and links that are blamed: a group's members, or the element itself."""
        return self.members or (self.element,)


@dataclass(frozen=True, kw_only=True)
class Limitation:
    """What could not be concluded, in a sentence; ``names``: all whom it concerns, where it names only some.

    ``common_s``: seconds that each of most hosts, or links, took longer, of which none is blamed for it; else 0.
    """

    sentence: str
    names: tuple[str, ...] = ()
    common_s: float = 0.0

    @classmethod
    def of(cls, sentence: str, kind: str, names: Sequence[str], *, common_s: float = 0.0) -> Limitation:
        """``sentence`` with ``names``, links or hosts as ``kind`` says, in place of its braces; many are counted."""
        concerned = tuple(names) if len(names) > NAMED else ()
        return cls(sentence=sentence.format(some(kind, names)), names=concerned, common_s=common_s)


def some(kind: str, names: Sequence[str]) -> str:
    """``a, b`` of few ``names``; ``60 links, such as a, b, c`` of many."""
    shown = ", ".join(names[:NAMED])
    return shown if len(names) <= NAMED else f"{len(names)} {kind}s, such as {shown}"


@dataclass(frozen=True, kw_only=True)
class SpeedUp:
    """One element or group, and what making it twice as fast would save. Sorted, the first is *the* bottleneck."""

    element: Element
    saved_s: float
    speedup: float
    replayed: bool = True  # False: ``saved_s`` and ``speedup`` are what it can be at most
    members: tuple[Element, ...] = ()  # of a group


@dataclass(frozen=True, kw_only=True)
class Chance:
    """How far chance alone moves the time of a run: simulated again ``runs`` times, with other seeds."""

    runs: int
    least_s: float
    most_s: float

    @property
    def is_steady(self) -> bool:
        """Whether it takes as long by any luck: what hangs on chance is then what is saved alone."""
        return self.most_s - self.least_s <= STEADY * self.most_s


@dataclass(frozen=True, kw_only=True)
class HostSummary:
    """Where one worker's time went."""

    host: str
    rank: int
    layer: str
    states_s: Mapping[State, float]  # seconds in each state; they sum to wall_s
    wall_s: float
    compute_per_iteration_s: float  # median, of those that it did not skip
    complete: bool  # False: its trace breaks off
    iterations: int = 0  # that it has finished; 0: an earlier version did not say


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
    """Everything an analysis found; :meth:`from_json` reads back what :meth:`to_json` writes.

    Worked example: ``Report.from_json((archive / "report.json").read_bytes(), "report.json").culprits[0].saved_s``.
    """

    format: int = REPORT_FORMAT
    iterations: int
    run_s: float  # from the first rank's first iteration to the last rank's end
    iteration_s: float  # median over iterations of the slowest rank's time
    unexplained: float  # share of the run's longest path that is gaps and waking up: no what-if changes it
    half_error: float  # |predicted - measured| / measured second half, from the first's durations; NaN: too short
    hosts: tuple[HostSummary, ...]
    links: tuple[LinkSummary, ...]
    bottlenecks: tuple[SpeedUp, ...]  # single elements, most saving first; those not replayed last
    findings: tuple[Finding, ...]  # every departure found, most saving first
    culprits: tuple[Finding, ...]  # the material ones among them
    clock_uncertainty_s: float  # worst over ranks
    chance: Chance | None = None
    """Where the run's time hangs on chance: savings and speed-ups are means over so many runs. None: it does not."""
    groups: tuple[SpeedUp, ...] = ()  # of elements that save more together than each alone, most saving first
    least_visible: Mapping[ElementKind, float] = field(default_factory=dict)
    """Detection limit. Kind -> times slower, all the time, than which any of those judged had been seen."""
    limitations: tuple[str, ...]  # what the reader must know before believing a figure
    concerned: Mapping[str, tuple[str, ...]] = field(default_factory=dict)
    """A limitation that names only some -> all links or hosts that it concerns."""
    in_common: Mapping[str, float] = field(default_factory=dict)
    """A limitation that says by what most hosts, or links, were slower, none of them blamed -> seconds of each."""
    reference: str = DESIGN
    """What elements are slower than: as DESIGN; EXPECTED of a run of which nothing was designed."""
    staleness: tuple[Staleness, ...] = ()
    """Of whole ranks' updates, in rank order; none where no update can be stale."""
    first_iteration: int = 0
    """That is judged: of those before some rank's are lost."""
    round_iterations: int = 1
    """Ranks exchange something in every so many iterations."""
    untraced: tuple[str, ...] = ()
    """Hosts that trained and left no trace: what happened there nobody knows."""
    mistimed_s: float = 0.0
    """Most by which a message arrives before it was sent, where nothing tells for that what departures cost, and
    ``saved_s`` and ``speedup`` of findings are NaN; else 0."""
    together_s: float = 0.0
    """What all culprits cost together, where there are several; without any, all that departs, where several do."""
    replayed: bool = False
    """Whether savings are of a replay, though ranks may decide otherwise: what costs little there may cost much."""
    unjudged: tuple[str, ...] = ()
    """Hosts and links that took part, and of which nobody knows how fast they should be."""
    untimed: tuple[str, ...] = ()
    """Links between whose ends no clocks tell: a longer delay of them would not have been seen."""
    silent_s: Mapping[str, float] = field(default_factory=dict)
    """Link -> seconds for which, at the end of a trace that breaks off, it carried nothing of what was sent."""

    @property
    def mean_iteration_s(self) -> float:
        """Of the iterations that all ranks finished, as far as they fill the run."""
        return self.run_s / self.iterations

    @property
    def slowed_in_common(self) -> tuple[str, ...]:
        """Those of ``in_common`` that may have cost what would make a culprit of one."""
        return tuple(said for said, seconds in self.in_common.items()
                     if self.run_s >= MATERIAL_SPEEDUP * (self.run_s - seconds))  # fmt: skip

    @property
    def undecided(self) -> bool:
        """Whether nobody can say what slowed the run down, if anything did: costs of what departs are not known."""
        unknown = self.unexplained > MOST_UNKNOWN or ((self.untraced or self.mistimed_s) and self.findings)
        return bool(unknown) and not self.culprits

    @property
    def blamed(self) -> frozenset[Element]:
        """Hosts, links and shared bottlenecks that culprits name, a group's members each."""
        return frozenset(element for finding in self.culprits for element in finding.elements)

    def to_json(self) -> bytes:
        """report.json: field names, enums by value; numbers that JSON cannot write (infinite, none) become null."""
        return msgspec.json.format(msgspec.json.encode(self), indent=2) + b"\n"

    @classmethod
    def from_json(cls, text: bytes, where: str) -> Report:
        """The Report that ``text`` holds. Raises: ArchiveError, one line that names ``where``."""
        try:
            plain = typed.decode(text, object)
            found = plain.get("format") if isinstance(plain, dict) else None
            if found != REPORT_FORMAT:
                raise ArchiveError(
                    f"{where}: format {found!r}, this program reads {REPORT_FORMAT}; e2c-dl report writes it anew"
                )
            return typed.convert(_with_numbers(plain), cls)
        except (msgspec.MsgspecError, UnicodeDecodeError, RecursionError) as error:
            raise ArchiveError(f"{where}: not a report ({error}); e2c-dl report writes it anew") from error


_NULL = ("dst", "chance")  # of an element that is a host; of a run that does not hang on it


def _with_numbers(plain: Any) -> Any:
    """``plain`` with NaN for every number that JSON could not write; null by themselves are those of _NULL alone."""
    if isinstance(plain, list):
        return [math.nan if item is None else _with_numbers(item) for item in plain]
    if isinstance(plain, dict):
        return {
            key: math.nan if item is None and key not in _NULL else _with_numbers(item) for key, item in plain.items()
        }
    return plain
