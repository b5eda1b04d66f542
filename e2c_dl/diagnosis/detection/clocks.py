"""Clocks that contradict each other: whose times between hosts, or own lengths of time, are not to be believed.

No message arrives before it was sent, the designed delay later. Where the first byte of one seems to, beyond what
alignment leaves open, one of its ends' clocks is wrong: it has stepped or drifted since, or always was. Which, all
links tell together. Of host h, whose clock is x[h] ahead, bounds hold in each window::

    x[dst] - x[src] <= how late, beyond the designed delay, the first byte came that came soonest from src to dst

The clocks that are wrong are those by which fewest nanoseconds explain all bounds (least sum of abs(x), a linear
programme). Where others would nearly do, too (as of a link whose ends no other link holds to anything), none of them is
believed; nor, where no clocks that go evenly within a window explain it, is that of any host that contradicts another.

*Links* of such hosts, and of hosts whose clocks were never aligned, are judged by the receiver's clock alone, from a
message's first byte to its last: a delay is not seen by it. *Hosts* whose clock stepped have stretches of computing
that are too long or too short: no verdict on them, and nobody is held to them. Nor is there one where exchanges
straightened the clock out, yet leave open more of a time than MOST_OPEN of what an iteration computes.

A replay has nothing wait for what came after it. So where messages arrive before they were sent, by MOST_EARLY of an
iteration, and HELD_NS, in MOST_SPOILT of them, nobody knows what anything costs (:func:`mistimed_s`).
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from types import MappingProxyType

import numpy as np
import numpy.typing as npt

from e2c_dl.diagnosis.detection.change_points import Doubles
from e2c_dl.diagnosis.detection.windows import Windows
from e2c_dl.diagnosis.links import ObservedLink
from e2c_dl.diagnosis.model import Limitation
from e2c_dl.diagnosis.prefix import common_iterations
from e2c_dl.diagnosis.states import training_ns
from e2c_dl.formatting import count, seconds
from e2c_dl.topology import Pair
from e2c_dl.trace.clocks.certainty import in_steps
from e2c_dl.trace.messages import Messages
from e2c_dl.trace.model import COMPUTE, GRADIENT, Phase, RankTrace, Trace

TOLERANCE_NS = 1_000_000.0  # emulated delays are as good as that
SPREADS = 6.0  # of the designed jitter: by so much less a normally distributed delay is once in a billion messages
MOST_OPEN = 0.05
MOST_EARLY = 0.01  # of an iteration: beyond it, clocks do not tell who waited for whom in it
HELD_NS = 200_000.0  # twice what clocks are held to: no shorter time makes a clock wrong
MOST_SPOILT = 0.2  # of the iterations
MAX_UNCERTAINTY_OF_TRANSFER = 0.5  # beyond it the clocks say more of a transfer than the link
TELLS = 1.25  # times as much: other clocks that explain all bounds by less may be the wrong ones, too


@dataclass(frozen=True, kw_only=True)
class Untrusted:
    """Hosts whose times are not to be believed."""

    between: frozenset[str] = frozenset()  # beside those of other hosts
    within: frozenset[str] = frozenset()  # nor lengths of time on their own clock
    iterations: Mapping[str, Sequence[int]] = field(default_factory=lambda: MappingProxyType({}))
    """Host -> iterations in which its clock stepped, as exchanges tell: lengths of others are to be believed."""
    limitations: tuple[Limitation, ...] = ()


def untrusted_clocks(trace: Trace, carried: Sequence[ObservedLink], windows: Windows) -> Untrusted:
    """Whose clocks of ``trace``, whose links carried ``carried``, are not to be believed."""
    stepped, by_ns = _contradicting(carried, windows)
    bent = {rank.host for rank in trace.ranks if _is_bent(rank)}
    limitations = [*_about_steps(trace)]
    if stepped:
        by = seconds(by_ns / 1e9)
        void = f"Clocks of {{}} contradict the others' by up to {by}: no verdict on what these compute"
        limitations.append(Limitation.of(f"{void}; of links, receivers' clocks alone tell.", "host", sorted(stepped)))
    if bent - stepped:
        sentence = "Clocks of {} did not go evenly: no verdict on what these compute."
        limitations.append(Limitation.of(sentence, "host", sorted(bent - stepped)))
    return Untrusted(
        between=frozenset(stepped | {*trace.facts.get("hosts_without_clock", ())}), within=frozenset(stepped | bent),
        iterations={rank.host: _iterations_in_steps(rank) for rank in trace.ranks if rank.clock.steps},
        limitations=tuple(limitations),
    )  # fmt: skip


def _contradicting(carried: Sequence[ObservedLink], windows: Windows) -> tuple[set[str], float]:
    """The hosts whose clocks contradict the others', and by how much at most, ns."""
    bounds_ns = np.array([_bounds_ns(link, windows) for link in carried]).reshape(len(carried), len(windows))
    wrong = bounds_ns < 0
    pairs = [link.pair for link in carried]
    hosts: set[str] = set()
    for window in sorted({_middle(each) for each in wrong if each.any()}):
        told = ~np.isnan(bounds_ns[:, window])
        among = [pair for pair, tells in zip(pairs, told, strict=True) if tells]
        hosts |= wrong_clocks(among, bounds_ns[told, window])
    return hosts, float(-np.nanmin(bounds_ns, initial=0.0))


def _middle(which: npt.NDArray[np.bool_]) -> int:
    """Of the windows in ``which`` the middle one: a step is within the first, where both of its sides are seen."""
    found = np.flatnonzero(which)
    return int(found[len(found) // 2])


def _bounds_ns(link: ObservedLink, windows: Windows) -> Doubles:
    """Of each window by how much at most ``link.dst``'s clock is ahead of ``link.src``'s; NaN without a message.

    Below 0 only where it is by more than alignment, and the emulation of delays, leave open.
    """
    shortest_ns = float(link.designed.delay_s.values.min()) * 1e9  # it may change while a message is on its way
    open_ns = TOLERANCE_NS + link.uncertainty_ns + SPREADS * link.designed.jitter_s * 1e9
    late_ns = link.rows["recv_start_ns"] - link.rows["send_start_ns"] - shortest_ns
    least = np.full(len(windows), np.inf)
    np.minimum.at(least, windows.of_messages(link.rows, link.began_ns), late_ns)
    return np.where(np.isinf(least), np.nan, np.where(least < -open_ns, least, np.maximum(least, 0.0)))


def wrong_clocks(pairs: Sequence[Pair], bounds_ns: Doubles) -> set[str]:
    """The hosts whose clocks are wrong, or may be, for that of ``pairs`` each dst's is ahead by ``bounds_ns`` at most.

    Those that least explains, and those that less than TELLS times as much would, too. Of bounds that no clocks keep,
    which contradict each other around a circle: both ends of each pair that is broken by clocks that are right.
    """
    from scipy import sparse  # where they are needed: they take long to import
    from scipy.optimize import linprog

    hosts = sorted({host for pair in pairs for host in pair})
    ends = np.searchsorted(hosts, np.array(pairs).reshape(-1, 2))
    each = np.arange(len(pairs))
    ahead = sparse.coo_array(
        (np.repeat([1.0, -1.0], len(pairs)), (np.tile(each, 2), np.concatenate([ends[:, 1], ends[:, 0]]))),
        shape=(len(pairs), len(hosts)),
    ).tocsr()  # fmt: skip
    found: set[str] = set()
    for _ in range(2):
        cost = np.where(np.isin(hosts, sorted(found)), TELLS, 1.0)
        solved = linprog(np.tile(cost, 2), A_ub=sparse.hstack([ahead, -ahead]), b_ub=bounds_ns, method="highs")
        if not solved.success:
            return {host for pair, bound in zip(pairs, bounds_ns, strict=True) if bound < 0 for host in pair}
        off_ns = solved.x[: len(hosts)] - solved.x[len(hosts) :]
        found |= {host for host, by_ns in zip(hosts, off_ns, strict=True) if abs(by_ns) > TOLERANCE_NS}
    return found


def _is_bent(rank: RankTrace) -> bool:
    """Whether its clock was straightened out between exchanges, which leaves open how long what it did lasted."""
    if not rank.clock.knots:
        return False
    spans = rank.of(*(GRADIENT if len(rank.rows(*GRADIENT)) else COMPUTE))  # a script may name no gradients
    iterations = max(1, len(np.unique(spans["iteration"])))
    computed_ns = float((spans["end_ns"] - spans["start_ns"]).sum()) / iterations
    return rank.clock.usual_ns > MOST_OPEN * computed_ns


def _iterations_in_steps(rank: RankTrace) -> list[int]:
    found = np.unique(rank.spans["iteration"][in_steps(rank) & (rank.spans["phase"] != Phase.TRAINING)])
    return [int(each) for each in found if each >= 0]


def _about_steps(trace: Trace) -> Iterator[Limitation]:
    """What is left out, or stays uncertain, since clocks were seen to step."""
    stepped = [rank for rank in trace.ranks if rank.clock.steps]
    if stepped:
        most_s = seconds(max(rank.clock.uncertainty_ns for rank in stepped) / 1e9)
        iterations = sum(len(_iterations_in_steps(rank)) for rank in stepped)
        left = count(iterations, "iteration in which they did is", "iterations in which they did are")
        what = f"up to {most_s} while nobody asked them; {left} not judged"
        yield Limitation.of(f"Clocks of {{}} stepped by {what}.", "host", [rank.host for rank in stepped])


def mistimed_s(trace: Trace, messages: Messages) -> float:
    """The most by which one of ``messages`` arrived before it was sent, in seconds, where that spoils costs; else 0.0.

    Of a clock that was wrong for a moment, only what it had to do with then is spoilt.
    """
    rows = messages.joined
    early_ns = rows["send_start_ns"] - rows["recv_end_ns"]
    if early_ns.max(initial=0) <= 0:
        return 0.0
    times_ns = np.array([training_ns(rank) for rank in trace.ranks])
    begin_ns, length_ns = int(times_ns.min()), int(times_ns.max() - times_ns.min())
    iteration_ns = length_ns / common_iterations(trace)  # ranks at their own pace number theirs as they like
    place = (rows["send_start_ns"] - begin_ns) // iteration_ns
    spoilt = place[early_ns > max(MOST_EARLY * iteration_ns, HELD_NS)]
    is_much = len(np.unique(spoilt)) > MOST_SPOILT * len(np.unique(place))
    return float(early_ns.max()) / 1e9 if is_much else 0.0


def about_mistimed(early_s: float) -> Iterator[Limitation]:
    """What is not known of a run in which messages arrive ``early_s`` before they were sent."""
    if early_s:
        unknown = "what departures cost is not known, nor where the bottleneck is"
        yield Limitation(sentence=f"M{arriving(early_s)[1:]}: {unknown}, and times that span hosts are as wrong.")


def arriving(early_s: float) -> str:
    """What is said of clocks by which messages arrive ``early_s`` before they were sent."""
    return f"messages arrive up to {seconds(early_s)} before they are sent, so wrong are clocks"


def about_unaligned(trace: Trace) -> Iterator[Limitation]:
    """Whose clocks were never held to the others'."""
    unaligned = trace.facts.get("hosts_without_clock", ())
    if unaligned:
        void = "Clocks of {} were never aligned: no one-way times; of links, receivers' clocks alone tell."
        yield Limitation.of(void, "host", unaligned)


def about_one_way_times(trace: Trace, carried: Sequence[ObservedLink]) -> Iterator[Limitation]:
    """Where clocks do not tell how long messages took."""
    if trace.facts.get("hosts_without_clock"):
        yield from about_unaligned(trace)
        return
    uncertain = [
        str(link.element) for link in carried
        if link.uncertainty_ns / 1e9 > MAX_UNCERTAINTY_OF_TRANSFER * link.transfer_s
    ]  # fmt: skip
    if uncertain:
        yield Limitation.of("Clocks are not aligned well enough for one-way times on {}.", "link", uncertain)
