"""Each link beside its design, less what the machine does to all of them: those that depart, and what would be seen.

A link departs where its series does (:mod:`..series`), and a message is late on average by more than LEAST_LATE, the
uncertainty of both ends' clocks and the jitter that was designed: less is what a busy receiver's read costs. In a
modelled world nobody is busy: there only messages that would find the link idle as designed, the first of each row,
may be late by so much, for what jitter makes one of the others late, it takes off the next. One that has messages of
the warm-up alone must be later by more than TCP's slow start (:mod:`.series`).

Where links are emulated or real, what all of them share, in proportion or for each message, is the machine's doing, and
nobody's departure; the fastest group of links tells how much that is (:mod:`..peers`), where there are enough of those
that pass no shared line. In a modelled world there is no machine, and windows of small messages alone are judged, too;
a link that does not depart with them may without. One that departs in neither is judged by all messages, those of its
warm-up, too, each beside what it takes as designed, TCP's windows included (:mod:`.tcp_simulated`), where all links
have no more than MOST_MESSAGES: but for jitter nothing makes them uneven, unless a delay comes and goes.
"""

from __future__ import annotations

from collections.abc import Collection, Sequence
from dataclasses import dataclass, replace
from functools import cached_property

import numpy as np
import numpy.typing as npt

from e2c_dl.diagnosis.departures import Looked
from e2c_dl.diagnosis.design import Design
from e2c_dl.diagnosis.detection.change_points import MAD_OF_NORMAL, Doubles
from e2c_dl.diagnosis.detection.links.kinds import GRAIN_NS
from e2c_dl.diagnosis.detection.links.series import LinkSeries, link_series, sums
from e2c_dl.diagnosis.detection.links.tcp_simulated import AsDesigned
from e2c_dl.diagnosis.detection.peers import peers
from e2c_dl.diagnosis.detection.series import FLOOR, FLOOR_MODELLED, Judged, Levelled
from e2c_dl.diagnosis.detection.together import levelled_together
from e2c_dl.diagnosis.detection.windows import Windows
from e2c_dl.diagnosis.links import ObservedLink
from e2c_dl.diagnosis.model import Element, ElementKind
from e2c_dl.diagnosis.stretches import Stretches, stretches
from e2c_dl.topology import Pair

LEAST_LATE_NS = 1_000_000.0  # what a busy receiver's read costs; less, where many links show that theirs do
LEAST_LATE_MODELLED_NS = 200_000.0  # nobody is busy there
LEAST_FOR_COMMON = 3  # links: of two, neither tells which is normal
COMMON_SHARE = 0.25  # of the links: as slow as the fastest of them, all are by the machine
LEAST_FOR_SPREAD = 6  # links: so many show how much reads differ by themselves
SPREADS = 5.0
MOST_MESSAGES = 50_000  # of all links, simulated as designed: in half a second, where windows are open
BLIND = 2.0  # times slower that a link must have been to be seen
FLOOR_WARMING = float(np.log(1.5))  # of messages that wait for a process to wake, a library to make its plans


@dataclass(frozen=True, kw_only=True, eq=False)
class JudgedLink:
    """One link beside its design."""

    of: LinkSeries
    judged: Judged

    @property
    def link(self) -> ObservedLink:
        return self.of.link

    @property
    def departs(self) -> bool:
        return bool(self.judged.departs.any())

    @property
    def is_held(self) -> bool:
        """Whether it would have been seen, were it slower all the time."""
        return not self.of.warming

    @property
    def designed_ns(self) -> Doubles:
        """What each of its messages takes as designed, shape (messages,)."""
        return self.link.expected_ns

    @cached_property
    def stretches(self) -> Stretches:
        """When it departs: from when the link took what shows it, however long that had waited for what was ahead."""
        if self.judged.departs.all():
            return self.judged.stretches
        of, until_s = self.of, self.of.series.until_s
        if of.served_s[-1] >= until_s:  # a queue goes on when the last iteration is over
            until_s = float(self.link.left_ns.max()) / 1e9
        found = stretches(self.judged.shown, len(of.series), of.series.iterations, of.served_s, until_s)
        return replace(found, onset_iteration=max(found.onset_iteration, self.iteration_at(found.onset_s)))

    def iteration_at(self, time_s: float) -> int:
        """The iteration that its source was in at ``time_s``."""
        return self.of.training.iteration_of(self.link.src, time_s)

    @property
    def opening(self) -> npt.NDArray[np.bool_]:
        """Its messages before the first window that is judged, shape (messages,): those if that departs, else none."""
        sent_s = (self.link.rows["send_start_ns"] - self.link.began_ns) / 1e9
        return np.asarray(self.judged.departs[0] & ~self.of.judged & (sent_s < self.of.series.begins_s[0]))

    @property
    def looked(self) -> Looked:
        """Its windows that show a rate; each lasts until its last message is there."""
        of, begins_s = self.of, self.of.series.begins_s
        ends_s = begins_s.copy()
        np.maximum.at(ends_s, of.windows[of.judged], of.arrived_s[of.judged])
        chosen = of.series.tells
        return Looked(begins_s=begins_s[chosen], ends_s=ends_s[chosen], departs=self.judged.windows[chosen])

    @property
    def resolution(self) -> float:
        """How many times slower its rate must have been to be seen: GRAIN is no part of that."""
        bare_ns = max(1.0, self.of.expected_ns - GRAIN_NS)
        return max(1.0, (self.judged.resolution * (bare_ns + GRAIN_NS) - GRAIN_NS) / bare_ns)


def judged_links(
    carried: Sequence[ObservedLink], windows: Windows, design: Design, as_designed: AsDesigned
) -> tuple[list[JudgedLink], float]:
    """Every link that can be judged, and how many times slower all of them are by the machine."""
    modelled = design.reference.modelled
    series = _series([link for link in carried if link.judgeable], windows, small=modelled, exact=modelled)
    own = _levelled(series, design)
    warm = [] if modelled else [(one, each) for one, each in zip(own, series, strict=True) if not each.warming]
    nothing = _ByMachine(least_ns=LEAST_LATE_MODELLED_NS if modelled else LEAST_LATE_NS)
    of_all = _by_machine(warm, design) or nothing
    # What others leave a link of a line is known so badly that it tells nothing of how far those beside it are apart.
    plain = _by_machine([(one, each) for one, each in warm if each.link.designed.left is None], design) or of_all

    def judged(each: LinkSeries, one: Levelled, by: _ByMachine) -> JudgedLink:
        reference = by.reference(each.expected_ns)
        late_ns_needed = by.least_ns + each.link.uncertainty_ns + each.link.designed.jitter_s * 1e9
        if modelled:  # nobody reads late, and by what one message is late the next is served sooner
            late_ns_needed *= float(each.link.first_of_row[each.judged].mean())
        beyond = float(np.log1p(late_ns_needed / (each.expected_ns * np.exp(reference))))
        least = FLOOR_MODELLED if modelled else FLOOR_WARMING if each.warming else FLOOR
        return JudgedLink(of=each, judged=one.judged(reference, max(by.apart, beyond), least))

    def again(several: Sequence[LinkSeries]) -> dict[Pair, JudgedLink]:
        levels = _levelled(several, design)
        return {each.link.pair: judged(each, one, nothing) for each, one in zip(several, levels, strict=True)}

    found = [
        judged(each, one, plain if each.link.designed.left is None else of_all)
        for each, one in zip(series, own, strict=True)
    ]
    if modelled:
        first = {each.link.pair: each for each in found}
        quiet = [each for each in found if not each.departs]
        large = _series([each.link for each in quiet], windows, exact=True)
        fewer = again([each for each in large if len(each.series) < len(first[each.link.pair].of.series)])
        first |= {pair: each for pair, each in fewer.items() if each.departs}
        links = [each.link for each in first.values()]
        few = links if sum(len(link.rows) for link in links) <= MOST_MESSAGES else []
        whole = again([made for link in few if (made := _from_the_first(link, windows, as_designed)) is not None])
        first |= {pair: each for pair, each in whole.items() if _tells_more(each, first[pair])}
        found = [*first.values()]
    return found, plain.common


@dataclass(frozen=True, kw_only=True)
class _ByMachine:
    """What the machine does to all of several links."""

    slower: float = 0.0  # the logarithm of how many times
    later_ns: float = 0.0
    apart: float = 0.0  # logarithm: so far they lie apart by themselves
    least_ns: float  # so much later is none of its doing

    def reference(self, expected_ns: float) -> float:
        """Of a link whose messages take ``expected_ns``, the logarithm of how many times slower it is by that."""
        return float(max(0.0, self.slower, np.log1p(self.later_ns / expected_ns)))

    @property
    def common(self) -> float:
        """How many times slower all of them are."""
        return float(np.exp(max(0.0, self.slower)))


def _by_machine(warm: Sequence[tuple[Levelled, LinkSeries]], design: Design) -> _ByMachine | None:
    """Of the links ``warm``; None: they are too few to tell."""
    if len(lines([each.link for _, each in warm], design)) < LEAST_FOR_COMMON:
        return None
    group = peers([one.base for one, _ in warm], [one.base_error for one, _ in warm])
    expected_ns = np.array([each.expected_ns for _, each in warm])
    late_ns = np.expm1([one.base for one, _ in warm]) * expected_ns
    least_ns = LEAST_LATE_NS
    if len(late_ns) >= LEAST_FOR_SPREAD:
        spread_ns = float(np.median(np.abs(late_ns - np.median(late_ns)))) / MAD_OF_NORMAL
        least_ns = min(LEAST_LATE_NS, LEAST_LATE_MODELLED_NS + SPREADS * spread_ns)
    return _ByMachine(
        slower=group.reference, later_ns=_shared_ns(late_ns, expected_ns, group.fastest), apart=group.apart,
        least_ns=least_ns,
    )  # fmt: skip


def _shared_ns(late_ns: Doubles, expected_ns: Doubles, fastest: Sequence[int]) -> float:
    """What each message takes longer by the machine, as the fastest COMMON_SHARE of links have it; of all: (links,).

    Not by more than the ``fastest`` of them, beside their design, can have met: where layers are slow, these are few.
    """
    few = [*fastest]
    of_all, of_fastest, at_most = (
        float(np.quantile(each, COMMON_SHARE, method="lower"))
        for each in (late_ns, late_ns[few], late_ns[few] + np.expm1(FLOOR) * expected_ns[few])
    )
    return max(0.0, of_all if of_all <= at_most else of_fastest)


def _from_the_first(link: ObservedLink, windows: Windows, as_designed: AsDesigned) -> LinkSeries | None:
    """The series of ``link`` from its first message on; None, if nobody knows what these take as designed.

    Nobody does where links share a line: what one of them takes hangs on when the others send.
    """
    would_ns = as_designed.would_ns(link) if link.designed.left is None else None
    return None if would_ns is None else link_series(link, windows, exact=True, would_ns=would_ns)


def _tells_more(whole: JudgedLink, later: JudgedLink) -> bool:
    """Whether ``whole``, judged from the first message on, says what ``later``, after the warm-up, does not.

    It departs, or nothing but its warm-up is known; or it was on time before ``later`` begins to depart, though so much
    would have been seen then.
    """
    if not later.departs:
        return whole.departs or later.of.warming
    early = whole.of.series.begins_s < later.of.series.begins_s[0]
    if not whole.departs or not later.judged.departs[0] or not early.any():
        return False
    if (whole.judged.beyond[early] > whole.judged.apart).any():  # it was late already, if not surely
        return False
    counts = len(whole.of.series)
    added_ns = (later.judged.slowdown - 1) * sums(whole.of.windows, whole.link.expected_ns, counts)[early]
    would_seen = np.log1p(added_ns / (whole.of.series.designed_s[early] * 1e9 + GRAIN_NS))
    return bool((would_seen > 2 * whole.judged.apart).all())


def _series(
    links: Sequence[ObservedLink], windows: Windows, *, small: bool = False, exact: bool
) -> list[LinkSeries]:  # fmt: skip
    return [made for link in links if (made := link_series(link, windows, small=small, exact=exact)) is not None]


def _levelled(series: Sequence[LinkSeries], design: Design) -> list[Levelled]:
    layers = {host.name: host.layer for host in design.reference.topology.hosts}
    between = [(layers[each.link.src], layers[each.link.dst]) for each in series]
    sharing = {of for of, each in zip(between, series, strict=True) if each.link.designed.left is not None}
    return levelled_together([each.series for each in series], between, taking_turns={*between} - sharing)


def lines(links: Sequence[ObservedLink], design: Design) -> dict[Element, list[tuple[str, str]]]:
    """Pairs by what limits them: those of one shared bottleneck together, the others each by itself."""
    shared = design.line_of
    lines: dict[Element, list[tuple[str, str]]] = {}
    for link in links:
        name = shared.get(link.pair)
        line = link.element if name is None else Element(kind=ElementKind.SHARED, src=name)
        lines.setdefault(line, []).append(link.pair)
    return lines


def slow_together(
    judged: Sequence[JudgedLink], slow: Collection[tuple[str, str]], design: Design
) -> dict[Element, list[JudgedLink]]:
    """Lines that several links share -> those of them that are ``slow``: all of those that carried anything meanwhile.

    ``slow``: pairs of hosts. What carried next to nothing after warm-up says nothing against it. Nor do links that are
    so uneven that it would not have been seen if they were as slow, as long as more are slow than there are of these.
    """
    by_pair = {each.link.pair: each for each in judged}
    found = {}
    for line, pairs in lines([each.link for each in judged], design).items():
        own = [by_pair[pair] for pair in pairs if pair in slow]
        if len(own) < 2:
            continue
        others = [by_pair[pair] for pair in pairs if pair not in slow and not by_pair[pair].of.warming]
        slowdown = float(np.median([each.judged.slowdown for each in own if each.departs] or [1.0]))
        seeing = [each for each in others if each.resolution <= slowdown]
        if len(others) - len(seeing) < len(own):
            others = seeing
        if not any(_carried_during(each, one) for each in others for one in own):
            found[line] = own
    return found


def _carried_during(each: JudgedLink, one: JudgedLink) -> bool:
    """Whether a message of ``each`` that is judged was sent while ``one`` was seen to depart.

    In a window that departs, or between two such that follow each other: what it was like between others, and before
    the first, nothing tells.
    """
    seen, iterations = one.looked, one.of.series.iterations[one.of.series.tells]
    follows = seen.departs[:-1] & seen.departs[1:] & (np.diff(iterations) <= 1)
    ends_s = np.maximum(seen.ends_s, np.append(np.where(follows, seen.begins_s[1:], 0.0), 0.0))
    sent_s = (each.link.rows["send_start_ns"][each.of.judged] - each.link.began_ns) / 1e9
    return bool(replace(seen, ends_s=ends_s).departed_at(sent_s).any())
