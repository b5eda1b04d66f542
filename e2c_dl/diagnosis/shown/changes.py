"""Changes while training ran, in sentences: what, when it was requested, how late it was in force.

::

    changes    LINK a -> b, down      LINK a -> b, up        COMPUTE c 1.0   COMPUTE c 3.0   PAUSE c    RESUME c
               |<----- Stretch ---->|                        '--- steps: (0, 1.0), (20, 3.0)  |<-Stretch->|

Needs nothing but the logs of changes: no trace, no scenario. Seconds count from the beginning of training.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass

from e2c_dl import formatting
from e2c_dl.trace.changes import Change, ChangeInForce

ALIKE = 1.1  # times as long as the shortest: links that are cut together are mended together, but for some lateness
NAMED = 3  # of the links that are cut together, as many are named
LATE: Mapping[Change, str] = {Change.DATA: "batches", Change.STEP: "steps"}
_WORDS: Mapping[str, tuple[str, Callable[[float], str]]] = {
    "rate_bps": ("rate", formatting.rate),
    "delay_s": ("delay", formatting.seconds),
    "loss": ("loss", formatting.percent),
    "factor": ("slowness", "{:.3g} ×".format),
    "later_s": ("later by", formatting.seconds),
}


@dataclass(frozen=True, kw_only=True)
class Stretch:
    """A cut or a pause: from the change that began it until ``end_s``; infinity if nothing ended it."""

    begun: ChangeInForce
    end_s: float

    @property
    def is_cut(self) -> bool:
        return self.begun.what is Change.LINK

    @property
    def length_s(self) -> float:
        return self.end_s - self.begun.in_force_s


def stretches(changes: Iterable[ChangeInForce]) -> tuple[Stretch, ...]:
    """The cuts and pauses among ``changes``, in order of their beginnings."""
    begun: dict[str, ChangeInForce] = {}
    made = []
    for change in in_order(changes, Change.LINK, Change.PAUSE, Change.RESUME):
        if change.what is Change.PAUSE or change.value.get("down"):
            begun.setdefault(change.whom, change)  # cut or paused again: it began with the first
        elif change.whom in begun:
            made.append(Stretch(begun=begun.pop(change.whom), end_s=change.in_force_s))
    made += [Stretch(begun=change, end_s=math.inf) for change in begun.values()]
    return tuple(sorted(made, key=lambda stretch: stretch.begun.in_force_s))


def steps(changes: Iterable[ChangeInForce], key: str, before: float | None = None) -> list[tuple[float, float]]:
    """(when in force, value of ``key``) each time it became another; ``before``: at 0, if that is known.

    No value (a rate without limit) is NaN.
    """
    made = [] if before is None else [(0.0, before)]
    for change in in_order(changes):
        value = change.value.get(key)
        number = math.nan if value is None else float(value)
        if not made or not _same(made[-1][1], number):
            made.append((change.in_force_s, number))
    return made


def in_order(changes: Iterable[ChangeInForce], *kinds: Change) -> list[ChangeInForce]:
    """Those of ``kinds`` (none: all) by when they were in force: true times, whatever a host's own clock did."""
    chosen = (change for change in changes if not kinds or change.what in kinds)
    return sorted(chosen, key=lambda change: change.in_force_s)


def whom(changes: Iterable[ChangeInForce], *kinds: Change) -> tuple[str, ...]:
    """Who was changed in these ways, sorted."""
    return tuple(sorted({change.whom for change in changes if change.what in kinds}))


def sentences(changes: Sequence[ChangeInForce]) -> tuple[str, ...]:
    """One per changing element and per fault; links that were cut together, for as long, are one."""
    made = []
    for name in whom(changes, Change.LINK):
        own = [change for change in changes if change.what is Change.LINK and change.whom == name]
        made += _schedule(f"link {name}", own, ("rate_bps", "delay_s", "loss"))
    for name in whom(changes, Change.BOTTLENECK):
        own = [change for change in changes if change.what is Change.BOTTLENECK and change.whom == name]
        made += _schedule(f"bottleneck {name}", own, ("rate_bps",))
    for name in whom(changes, Change.COMPUTE):
        own = [change for change in changes if change.what is Change.COMPUTE and change.whom == name]
        made += _schedule(f"host {name}", own, ("factor",), begins=True)
    for kind, noun in LATE.items():
        for name in whom(changes, kind):
            own = [change for change in changes if change.what is kind and change.whom == name]
            made += _schedule(f"{noun} of host {name}", own, ("later_s",))
    for name in whom(changes, Change.THROTTLE):
        hot = [change for change in in_order(changes, Change.THROTTLE) if change.whom == name]
        made.append(
            f"host {name}: throttled itself {_times(len(hot))}, first at {formatting.seconds(hot[0].in_force_s)}"
        )
    found = stretches(changes)
    made += _cuts([stretch for stretch in found if stretch.is_cut])
    for pause in (stretch for stretch in found if not stretch.is_cut):
        begun, length = pause.begun, _length(pause.length_s)
        made.append(f"host {begun.whom}: paused {length}, {_asked(begun)}, {_late([begun])}")
    made += [f"host {each.whom}: killed, {_asked(each)}, {_late([each])}" for each in in_order(changes, Change.KILL)]
    return (*made, *(_clock(change) for change in in_order(changes, Change.CLOCK)))


def _schedule(
    name: str, changes: Sequence[ChangeInForce], properties: Sequence[str], begins: bool = False
) -> list[str]:
    """At most one sentence: of changes that did more than cut a link and mend it.

    The first in the log is a change, unless it is a cut, or the log ``begins`` with what holds at first.
    """
    before, values, changed = None, [], []
    for change in in_order(changes):
        value = tuple(change.value.get(key) for key in properties)
        known_before = before is not None or begins or change.value.get("down")
        if not known_before or (before is not None and value != before):
            changed.append(change)
        before = value
        values.append(value)
    if not changed:
        return []
    columns = {
        key: list(dict.fromkeys(column)) for key, column in zip(properties, zip(*values, strict=True), strict=True)
    }
    varying = {key: column for key, column in columns.items() if len(column) > 1} or columns
    reached = ", ".join(f"{_WORDS[key][0]} {_reach(key, column)}" for key, column in varying.items())
    span = f"from {_moment(changed[0])} to {_moment(changed[-1])}" if len(changed) > 1 else f"at {_moment(changed[0])}"
    return [f"{name}: changed {_times(len(changed))} ({reached}), requested {span}, {_late(changed)}"]


def _cuts(found: Sequence[Stretch]) -> list[str]:
    together: dict[str, list[list[Stretch]]] = {}
    for stretch in sorted(found, key=lambda each: each.length_s):
        alike = together.setdefault(_asked(stretch.begun), [])
        if not alike or stretch.length_s > ALIKE * alike[-1][0].length_s:
            alike.append([])
        alike[-1].append(stretch)
    made = []
    for cut in sorted((cut for alike in together.values() for cut in alike), key=_began):
        asked, length = _asked(cut[0].begun), _length(max(stretch.length_s for stretch in cut))
        names = naming([stretch.begun.whom for stretch in cut])
        made.append(f"{names}: cut {length}, {asked}, {_late([stretch.begun for stretch in cut])}")
    return made


def _began(cut: Sequence[Stretch]) -> float:
    return min(stretch.begun.in_force_s for stretch in cut)


def naming(links: Sequence[str]) -> str:
    """``link a -> b``, or ``links a -> b, c -> d, e -> f and 2 more``."""
    more = f" and {len(links) - NAMED} more" if len(links) > NAMED else ""
    return f"{'link' if len(links) == 1 else 'links'} {', '.join(links[:NAMED])}{more}"


def _clock(change: ChangeInForce) -> str:
    did = []
    if step_s := change.value.get("step_s"):
        did.append(f"stepped by {formatting.seconds(step_s)}")
    if drift := change.value.get("drift"):
        did.append(f"{'gains' if drift > 0 else 'loses'} {abs(drift) * 1e6:.3g} ppm more from then on")
    return f"host {change.whom}: clock {' and '.join(did) or 'set'}, {_asked(change)}"


def _asked(change: ChangeInForce) -> str:
    return f"requested at {_moment(change)}"


def _moment(change: ChangeInForce) -> str:
    if change.asked_iteration is not None:
        return f"iteration {change.asked_iteration}"
    return formatting.seconds(change.asked_s)


def _late(changes: Sequence[ChangeInForce]) -> str:
    worst_s = max(change.lateness_s for change in changes)
    if worst_s <= 0:
        return "in force on time"
    return f"in force {'at most ' if len(changes) > 1 else ''}{formatting.seconds(worst_s)} later"


def _length(seconds: float) -> str:
    return "for good" if math.isinf(seconds) else f"for {formatting.seconds(seconds)}"


def _reach(key: str, values: Sequence[float | None]) -> str:
    """From the least to the greatest of different ``values``; None, no limit, is the greatest."""
    order = sorted(values, key=lambda value: math.inf if value is None else value)
    least, greatest = _shown(key, order[0]), _shown(key, order[-1])
    return least if len(order) == 1 else f"{least} to {greatest}"


def _shown(key: str, value: float | None) -> str:
    return formatting.UNLIMITED if value is None else _WORDS[key][1](value)


def _times(number: int) -> str:
    return "once" if number == 1 else f"{number} times"


def _same(one: float, other: float) -> bool:
    return one == other or (math.isnan(one) and math.isnan(other))  # NaN equals nothing, not even itself
