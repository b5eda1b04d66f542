"""A delay that a busy link hides: first bytes of the messages that found it idle.

::

    sent  |--- delay ---|= first byte          nothing was before it: no queue, no window can hold a first byte
          |--- delay ---|======== service ========|
             sent |----- delay -----|             |== service ==|      of all others the delay overlaps the one before

Where messages wait for each other a longer delay takes nothing of what the link carries, and services do not show it;
it does cost what TCP's window takes longer to open. So links of a modelled world, where nobody reads late, are asked
for the first bytes that nothing held up, those of the warm-up, too: all of them must be late. Where others share a
line with it, whose queues they stand in, those are asked that found the whole line idle. Of messages that are alike in
size and apart in time, first bytes tell whether they are late by a delay.
"""

from __future__ import annotations

from collections.abc import Iterable

import numpy as np
import numpy.typing as npt

from e2c_dl.diagnosis.detection.links.kinds import LARGE, UNEVEN
from e2c_dl.diagnosis.links import ObservedLink

LEAST_LATE_NS = 1_000_000.0
CERTAIN = 3  # messages: that of each the first segment was lost no link is so bad for
EVEN_NS = 500_000.0  # so far apart are reads of a machine that is not busy
ASLEEP_NS = 3_000_000.0  # who sleeps until a first byte comes reads it 1.3 to 2 ms late, each time
OPENING = 8  # round trips in which TCP's window opens to what any link here carries
JITTERS = 4.0  # of the designed jitter: no draw is as late, of either distribution


def late_first_bytes_ns(link: ObservedLink, among: npt.NDArray[np.bool_] | None = None, *, least: int = 1) -> float:
    """By how much first bytes that nothing held up were late, median; 0 if any was not, or they are not ``least``.

    ``among``: which messages are asked, shape (messages,); None: all.
    """
    idle = found_idle(link)
    asked_ns = first_bytes_late_ns(link)[idle if among is None else idle & among]
    if link.by_receiver or len(asked_ns) < least:
        return 0.0
    return float(np.median(asked_ns)) if asked_ns.min() > least_late_ns(link) else 0.0


def even_delay_ns(link: ObservedLink, slowdown: float) -> float:
    """By how much first bytes that nothing held up were late, all by one time, of CERTAIN messages or more; else 0.

    No busy reader is as even, and no window holds a first byte up; but who sleeps reads each late, and at a rate that
    is ``slowdown`` times lower a first segment takes longer, too. Messages that are late by more than a delay costs,
    once in each round trip that they take, are not so by it; those of full length tell.
    """
    late_ns = late_first_bytes_ns(link, least=CERTAIN)
    if late_ns <= ASLEEP_NS + link.uncertainty_ns + slowdown * link.frame_ns:
        return 0.0
    off_ns = np.abs(first_bytes_late_ns(link)[found_idle(link)] - late_ns)
    even_ns = EVEN_NS + link.uncertainty_ns + JITTERS * link.designed.jitter_s * 1e9 + UNEVEN * late_ns
    usual_ns = float(np.median(link.expected_ns[link.expected_ns >= LARGE * link.expected_ns.max()]))
    most_ns = late_ns * (OPENING + usual_ns / max(1.0, link.round_trip_ns))
    return late_ns if off_ns.max() <= even_ns and (slowdown - 1) * usual_ns <= most_ns else 0.0


def found_idle(link: ObservedLink) -> npt.NDArray[np.bool_]:
    """Which messages found ``link`` idle, shape (messages,)."""
    return np.append(True, link.rows["send_start_ns"][1:] >= np.maximum.accumulate(link.rows["recv_end_ns"])[:-1])


def found_line_idle(link: ObservedLink, beside: Iterable[ObservedLink]) -> npt.NDArray[np.bool_]:
    """Which messages of ``link`` found those links idle, too, that lie ``beside`` it on its line; shape (messages,)."""
    idle, sent_ns = found_idle(link), link.rows["send_start_ns"]
    for other in beside:
        begun = np.searchsorted(other.rows["send_start_ns"], sent_ns, side="right")
        until_ns = np.append(sent_ns.min() - 1, np.maximum.accumulate(other.rows["recv_end_ns"]))
        idle &= until_ns[begun] <= sent_ns
    return idle


def first_bytes_late_ns(link: ObservedLink) -> npt.NDArray[np.int64]:
    """By how much the first byte of each message was late, for whatever reason, shape (messages,)."""
    return np.asarray(link.rows["recv_start_ns"] - link.rows["send_start_ns"] - link.designed_delay_ns)


def least_late_ns(link: ObservedLink) -> float:
    """What the first byte of a message must be late by at least, to be late by more than chance."""
    return LEAST_LATE_NS + link.uncertainty_ns + JITTERS * link.designed.jitter_s * 1e9


def waits_ns(link: ObservedLink) -> npt.NDArray[np.int64]:
    """How long the receiver waited for first bytes that were due, though all before them was there; shape (messages,).

    Of what found the link idle it is by what the first byte was late; less, of what was sent while a delay that came
    still held up what was before it: where it is longer than messages are apart none finds the link idle.
    """
    rows = link.rows
    before_ns = np.append(0, np.maximum.accumulate(rows["recv_end_ns"])[:-1])
    due_ns = np.maximum(before_ns, rows["send_start_ns"] + link.designed_delay_ns)
    return np.asarray(rows["recv_start_ns"] - due_ns)


def waited_ns(link: ObservedLink, among: npt.NDArray[np.bool_]) -> float:
    """How long the receiver waited at most for first bytes that were due, though all before them was there.

    So long as a delay that comes while the link is busy: the first message that it meets comes that much later than
    the one before. Behind a lower rate nobody waits for first bytes. ``among``: which messages are asked, at least one.
    """
    return float(waits_ns(link)[among].max())
