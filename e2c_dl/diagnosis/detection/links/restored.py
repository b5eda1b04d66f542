"""What makes a link that departs as designed: its services times a scale, its delays less what was added.

::

    a rate     services x what they would have taken / what they took, in each stretch
    a delay    messages come that much sooner, and TCP's window opens that much faster before the first judged one

Losses come when they like: of a link that loses segments, and none as designed, all that is late is so for that, be it
shown by a window or not. A delay that comes and goes meets messages, too, of which no window shows it: those of the
warm-up, and large ones that take much longer. Where nothing but a model makes them late, they are those that are late
by just that. On the first of them hangs what a strategy knows of its links, and so what it sends next.

As designed, too, TCP's windows have to open and close again: where the link can be simulated as designed
(:mod:`.tcp_simulated`), what its messages would have taken is that, and not what its bare rate takes for them.
"""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import numpy.typing as npt

from e2c_dl.diagnosis.detection.change_points import Doubles
from e2c_dl.diagnosis.detection.links.judged import JudgedLink
from e2c_dl.diagnosis.detection.links.kinds import GRAIN_NS, UNEVEN, Kind
from e2c_dl.diagnosis.detection.links.series import sums
from e2c_dl.diagnosis.detection.links.tcp_simulated import at_least_ns, later_than
from e2c_dl.diagnosis.detection.links.way_back import sooner
from e2c_dl.diagnosis.links import ObservedLink, services_ns
from e2c_dl.diagnosis.model import Part
from e2c_dl.diagnosis.piecewise import Piecewise
from e2c_dl.diagnosis.replay.whatif import Change


def restored(each: JudgedLink, kind: Kind, would_ns: Doubles | None = None) -> Change:
    """The change that makes ``each``, which departs as ``kind`` says, as designed.

    ``would_ns``, shape (messages,): what each message takes as designed; None: nobody knows, beside its rate.
    """
    during = each.judged.during()
    less_s = during.mapped(lambda values: values * kind.delay_ns / 1e9)
    late = late_too(each, kind, would_ns)
    if late.any():
        less_s = _with(late, less_s, kind.delay_ns / 1e9, _sent_s(each.link))
    if would_ns is not None:
        if kind.part is Part.LOSS:
            during = _with(_lost_too(each, would_ns), during, 1.0, _sent_s(each.link))
        scale = _as_simulated(each, during, less_s, would_ns)
    elif kind.delay_ns:
        scale = during.mapped(lambda values: np.where(values > 0, 1 / kind.rate, 1.0))
        if each.opening.any():
            opening = sooner(each.link, each.opening, kind.delay_ns, own_ns=kind.delay_ns)
            scale = scale.since(float(each.of.series.begins_s[0]), opening)
    else:
        scale = each.judged.scale()
    return Change(element=each.link.element, scale=scale, less_s=less_s)


def each_by_itself(link: ObservedLink) -> Change:
    """The change that makes every message of ``link`` take what its bits take, as designed, and none another's luck."""
    starts_s, places = np.unique(_sent_s(link), return_index=True)
    shares = np.minimum(1.0, (link.expected_ns + GRAIN_NS) / (link.services_ns + GRAIN_NS))
    return Change(element=link.element, scale=Piecewise(starts_s=starts_s, values=shares[places]))


def late_too(each: JudgedLink, kind: Kind, would_ns: Doubles | None) -> npt.NDArray[np.bool_]:
    """Which messages, of windows that do not depart, are later by just the delay of ``kind``; shape (messages,).

    ``would_ns``: what they take as designed; None: nobody knows, and so none.
    """
    link = each.link
    grain_ns = GRAIN_NS + link.designed.jitter_s * 1e9 + UNEVEN * kind.delay_ns
    if would_ns is None or kind.delay_ns <= 2 * grain_ns:
        return np.zeros(len(link.rows), dtype=np.bool_)
    later_ns = services_ns(link.rows, link.designed_delay_ns) - at_least_ns(link, would_ns)
    return np.asarray(~each.judged.windows[each.of.windows] & (np.abs(later_ns - kind.delay_ns) <= grain_ns))


def _lost_too(each: JudgedLink, would_ns: Doubles) -> npt.NDArray[np.bool_]:
    """Which messages, of windows that do not depart, are late, too; shape (messages,), as ``would_ns``."""
    late = later_than(each.link, would_ns, each.link.designed.jitter_s * 1e9)
    return np.asarray(~each.judged.windows[each.of.windows] & late)


def _with(late: npt.NDArray[np.bool_], of: Piecewise, value: float, sent_s: Doubles) -> Piecewise:
    """``of``, and at least ``value`` from where each message that is ``late`` is sent until the next one is.

    What meets the first message holds before it, too.
    """
    starts_s = np.union1d(of.starts_s, sent_s[late | np.append(False, late[:-1])])
    latest = np.maximum(0, np.searchsorted(sent_s, starts_s, side="right") - 1)  # message that was sent by then
    return Piecewise(starts_s=starts_s, values=np.maximum(of.at(starts_s), np.where(late[latest], value, 0.0)))


def _sent_s(link: ObservedLink) -> Doubles:
    return np.asarray((link.rows["send_start_ns"] - link.began_ns) / 1e9)


def _as_simulated(each: JudgedLink, during: Piecewise, less_s: Piecewise, would_ns: Doubles) -> Piecewise:
    """The scale of its stretches, by all messages that were sent in them, and did not stall."""
    link = each.link
    if each.opening.any():  # windows that open take far longer than what follows: a stretch of its own
        during = during.since(float(each.of.series.begins_s[0]), 1.0)
    sent_s = _sent_s(link)
    stretch = np.maximum(0, np.searchsorted(during.starts_s, sent_s, side="right") - 1)
    less_ns = np.rint(less_s.at(sent_s) * 1e9).astype(np.int64)
    took_ns, designed_ns = (
        sums(stretch[link.moving], ns[link.moving], len(during.values))
        for ns in (services_ns(link.rows, link.designed_delay_ns + less_ns), at_least_ns(link, would_ns))
    )
    known = (took_ns > 0) & (during.values > 0)
    return replace(during, values=np.where(known, np.minimum(1.0, designed_ns / np.maximum(1.0, took_ns)), 1.0))
