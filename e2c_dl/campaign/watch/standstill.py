"""That a run goes no further: for how long no iteration has ended, who is behind, and what was sent and did not arrive.

::

    iterations   |---|---|---|
    looks        .  .  .  .  .  .  .  .  .  .  .  .  .
                             |--5 s--| said  |--10 s--| said ...     or, of long iterations, three times the longest

An iteration in which a link is cut, or a host stands still, is never ended by all, and so never judged.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping

import numpy as np

from e2c_dl import formatting
from e2c_dl.diagnosis.model import some
from e2c_dl.trace.model import Phase
from e2c_dl.trace.recording.growing import GrowingSpans

LEAST_S = 5.0
LONGER = 3.0  # than the longest of the last iterations


class Standstill:
    """Of one run, on the clock of who watches: ``since_s`` an iteration has ended on all workers."""

    def __init__(self, since_s: float) -> None:
        self._since_s = since_s
        self._next_s = LEAST_S

    def said(self, now_s: float, grown: Mapping[str, GrowingSpans]) -> str:
        """What is to be said of it, of hosts that have written ``grown``; nothing, if it is not time to (again)."""
        if not _train(grown):
            self._since_s = now_s
        still_s = now_s - self._since_s
        if still_s < self._next_s:
            return ""
        longest_s = _longest_s(grown)
        if still_s < LONGER * longest_s:
            return ""
        self._next_s = 2 * still_s
        usual = f", where one of the last took {formatting.seconds(longest_s)} at most" if longest_s else ""
        whole = [f"No iteration has ended on all workers for {formatting.seconds(still_s)}{usual}."]
        return " ".join([*whole, *_behind(grown), *_on_the_way(grown)])


def _train(grown: Mapping[str, GrowingSpans]) -> bool:
    """Whether all have begun to write, and any of them its first iteration: before that, they are set up."""
    return all(own.facts is not None for own in grown.values()) and any(
        own.finished or (own.spans["iteration"] >= 0).any() for own in grown.values()
    )


def _longest_s(grown: Mapping[str, GrowingSpans]) -> float:
    longest_ns = 0
    for own in grown.values():
        iterations = own.spans[own.spans["phase"] == Phase.ITERATION]
        longest_ns = max(longest_ns, int((iterations["end_ns"] - iterations["start_ns"]).max(initial=0)))
    return longest_ns / 1e9


def _behind(grown: Mapping[str, GrowingSpans]) -> Iterator[str]:
    least, most = (extreme(own.finished for own in grown.values()) for extreme in (min, max))
    if least < most:
        behind = some("host", [host for host, own in grown.items() if own.finished == least])
        yield f"Behind: {behind}, with {least} of {most}."


def _on_the_way(grown: Mapping[str, GrowingSpans]) -> Iterator[str]:
    """Links whose last messages were sent, and are not received."""
    hosts = {own.facts.rank: host for host, own in grown.items() if own.facts is not None}
    sent, received = (_newest(grown, phase) for phase in (Phase.SEND, Phase.RECEIVE))
    found = [
        f"{hosts[src]} -> {hosts[dst]}" for (src, dst), seq in sorted(sent.items())
        if {src, dst} <= hosts.keys() and seq > received.get((src, dst), -1)
    ]  # fmt: skip
    if found:
        why = "it carries nothing, or who receives stands still, or waits itself"
        yield f"Sent and not received: over {some('link', found)}; {why}."


def _newest(grown: Mapping[str, GrowingSpans], phase: Phase) -> dict[tuple[int, int], int]:
    """Link -> number of the newest message that ``phase`` tells of."""
    found: dict[tuple[int, int], int] = {}
    for own in grown.values():
        spans = own.spans[own.spans["phase"] == phase]
        for src, dst in np.unique(np.stack([spans["src"], spans["dst"]], axis=1), axis=0).tolist():
            newest = int(spans["seq"][(spans["src"] == src) & (spans["dst"] == dst)].max())
            found[src, dst] = max(newest, found.get((src, dst), -1))
    return found
