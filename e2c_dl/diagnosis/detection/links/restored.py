"""What makes a link that departs as designed: its services times a scale, its delays less what was added.

::

    a rate     services x what they would have taken / what they took, in each stretch
    a delay    messages come that much sooner, and TCP's window opens that much faster before the first judged one

As designed, too, TCP's windows have to open and close again: where the link can be simulated as designed
(:mod:`.tcp_simulated`), what its messages would have taken is that, and not what its bare rate takes for them.
"""

from __future__ import annotations

from dataclasses import replace

import numpy as np

from e2c_dl.diagnosis.detection.change_points import Doubles
from e2c_dl.diagnosis.detection.links.judged import JudgedLink
from e2c_dl.diagnosis.detection.links.kinds import Kind
from e2c_dl.diagnosis.detection.links.series import sums
from e2c_dl.diagnosis.detection.links.way_back import sooner
from e2c_dl.diagnosis.links import services_ns
from e2c_dl.diagnosis.piecewise import Piecewise
from e2c_dl.diagnosis.replay.whatif import Change


def restored(each: JudgedLink, kind: Kind, would_ns: Doubles | None = None) -> Change:
    """The change that makes ``each``, which departs as ``kind`` says, as designed.

    ``would_ns``, shape (messages,): what each message takes as designed; None: nobody knows, beside its rate.
    """
    during = each.judged.during()
    less_s = during.mapped(lambda values: values * kind.delay_ns / 1e9)
    if would_ns is not None:
        scale = _as_simulated(each, during, less_s, would_ns)
    elif kind.delay_ns:
        scale = during.mapped(lambda values: np.where(values > 0, 1 / kind.rate, 1.0))
        if each.opening.any():
            opening = sooner(each.link, each.opening, kind.delay_ns, own_ns=kind.delay_ns)
            scale = scale.since(float(each.of.series.begins_s[0]), opening)
    else:
        scale = each.judged.scale()
    return Change(element=each.link.element, scale=scale, less_s=less_s)


def _as_simulated(each: JudgedLink, during: Piecewise, less_s: Piecewise, would_ns: Doubles) -> Piecewise:
    """The scale of its stretches, by all messages that were sent in them, and did not stall."""
    link = each.link
    if each.opening.any():  # windows that open take far longer than what follows: a stretch of its own
        during = during.since(float(each.of.series.begins_s[0]), 1.0)
    sent_s = (link.rows["send_start_ns"] - link.began_ns) / 1e9
    stretch = np.maximum(0, np.searchsorted(during.starts_s, sent_s, side="right") - 1)
    moving = ~link.stalled_long
    less_ns = np.rint(less_s.at(sent_s) * 1e9).astype(np.int64)
    took_ns, designed_ns = (
        sums(stretch[moving], ns[moving], len(during.values))
        for ns in (services_ns(link.rows, link.designed_delay_ns + less_ns), np.fmax(would_ns, link.expected_ns))
    )
    known = (took_ns > 0) & (during.values > 0)
    return replace(during, values=np.where(known, np.minimum(1.0, designed_ns / np.maximum(1.0, took_ns)), 1.0))
