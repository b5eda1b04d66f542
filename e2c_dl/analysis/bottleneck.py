"""Which element would save most if it were twice as fast: it always exists, whether or not anything is wrong."""

from __future__ import annotations

from e2c_dl.analysis.model import Bottleneck
from e2c_dl.analysis.replay import Change, Replay

TWICE_AS_FAST = 0.5


def bottlenecks(replay: Replay) -> tuple[Bottleneck, ...]:
    """Every host's compute and every used link, most saving first; equal savings in the order of the replay."""
    found = []
    for element in replay.elements:
        run_ns = replay.run_ns(Change(scale={element: TWICE_AS_FAST}))
        found.append(
            Bottleneck(
                element=element,
                saved_s=(replay.replayed_ns - run_ns) / 1e9,
                speedup=replay.replayed_ns / run_ns,
            )
        )
    return tuple(sorted(found, key=lambda one: -one.saved_s))
