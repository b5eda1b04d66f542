"""Clocks that contradict each other: whose times between hosts, or own lengths of time, are not to be believed.

No message arrives before it was sent, the designed delay later. Where one seems to, beyond what alignment leaves open,
one of its ends' clocks has stepped or drifted since; which, the other links of both tell::

    links into h     late by x     late by x        h's clock is x ahead, if all that its links show is that: those out
    links out of h   early by x    early by x       of it early, those into it late; of both ends, if of neither

*Links* of such hosts, and of hosts whose clocks were never aligned, are judged by the receiver's clock alone, from a
message's first byte to its last: a delay is not seen by it. *Hosts* whose clock stepped have stretches of computing
that are too long or too short: no verdict on them, and nobody is held to them. Nor is there one where exchanges
straightened the clock out, yet leave open more of a time than MOST_OPEN of what an iteration computes.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from types import MappingProxyType

import numpy as np

from e2c_dl.diagnosis.detection.change_points import Doubles
from e2c_dl.diagnosis.detection.windows import Windows
from e2c_dl.diagnosis.links import ObservedLink
from e2c_dl.diagnosis.model import Limitation
from e2c_dl.formatting import seconds
from e2c_dl.trace.clocks.certainty import in_steps
from e2c_dl.trace.model import GRADIENT, Phase, RankTrace, Trace

TOLERANCE_NS = 1_000_000.0  # emulated delays are as good as that
SPREADS = 4.0  # of the designed jitter: by so much a normally distributed delay may be less
MOST_OPEN = 0.05


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
    early = {link.pair: _early_ns(link, windows) for link in carried}
    least = {pair: float(np.nanmin(each)) for pair, each in early.items() if not np.isnan(each).all()}
    wrong = {
        link.pair for link in carried
        if least.get(link.pair, 0.0) < -(TOLERANCE_NS + link.uncertainty_ns + SPREADS * link.designed.jitter_s * 1e9)
    }  # fmt: skip
    stepped = {host for pair in wrong for host in _blamed(pair, early)}
    bent = {rank.host for rank in trace.ranks if _is_bent(rank)}
    limitations = [*_about_steps(trace)]
    if stepped:
        by_s = seconds(-min(least[pair] for pair in wrong) / 1e9)
        void = f"Clocks of {{}} contradict the others' by up to {by_s}: no verdict on what these compute"
        limitations.append(Limitation.of(f"{void}; of links, receivers' clocks alone tell.", "host", sorted(stepped)))
    if bent - stepped:
        sentence = "Clocks of {} did not go evenly: no verdict on what these compute."
        limitations.append(Limitation.of(sentence, "host", sorted(bent - stepped)))
    return Untrusted(
        between=frozenset(stepped | {*trace.facts.get("hosts_without_clock", ())}), within=frozenset(stepped | bent),
        iterations={rank.host: _iterations_in_steps(rank) for rank in trace.ranks if rank.clock.steps},
        limitations=tuple(limitations),
    )  # fmt: skip


def _early_ns(link: ObservedLink, windows: Windows) -> Doubles:
    """Of each window the least transfer beyond the designed delay, below 0 where clocks contradict; NaN without one."""
    shortest_ns = float(link.designed.delay_s.values.min()) * 1e9  # it may change while a message is on its way
    beyond_ns = link.rows["recv_end_ns"] - link.rows["send_start_ns"] - shortest_ns
    least = np.full(len(windows), np.inf)
    np.minimum.at(least, windows.of_messages(link.rows, link.began_ns), beyond_ns)
    return np.where(np.isinf(least), np.nan, least)


def _blamed(pair: tuple[str, str], early: dict[tuple[str, str], Doubles]) -> tuple[str, ...]:
    """The end of ``pair``, one of whose messages came too early, that its other links blame too; both, if neither."""
    window = int(np.nanargmin(early[pair]))
    amount = -float(early[pair][window])
    blamed = []
    for host, ahead in zip(pair, (1.0, -1.0), strict=True):
        shown = []
        for (src, dst), each in early.items():
            if host in (src, dst) and (src, dst) != pair and not np.isnan(each).all():
                moved = _moved_ns(each, window) * (1.0 if dst == host else -1.0) * ahead
                shown.append(moved > amount / 4)
        if shown and all(shown):
            blamed.append(host)
    return tuple(blamed) or pair


def _moved_ns(each: Doubles, window: int) -> float:
    """How much later than usual, or sooner, messages of about that window came: of those around it the furthest."""
    near = each[max(0, window - 1) : window + 2]
    apart = near[~np.isnan(near)] - np.nanmedian(each) if not np.isnan(near).all() else np.zeros(1)
    furthest = float(apart[np.argmax(np.abs(apart))])
    early = float(np.nanmin(near)) if not np.isnan(near).all() else 0.0
    return min(furthest, early) if early < -TOLERANCE_NS else furthest


def _is_bent(rank: RankTrace) -> bool:
    """Whether its clock was straightened out between exchanges, which leaves open how long what it did lasted."""
    if not rank.clock.knots:
        return False
    spans = rank.of(*GRADIENT)
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
        left = sum(len(_iterations_in_steps(rank)) for rank in stepped)
        what = f"up to {most_s} while nobody asked them; {left} iterations in which they did are not judged"
        yield Limitation.of(f"Clocks of {{}} stepped by {what}.", "host", [rank.host for rank in stepped])
