"""A pause delays what depends on the paused host by at most its length, hastens nothing, and nothing happens in it."""

from __future__ import annotations

import random
from dataclasses import replace

import numpy as np
import virtual_world
from hypothesis import given, settings
from hypothesis import strategies as st

from e2c_dl.strategies.allreduce import Allreduce
from e2c_dl.trace.messages import conservation
from e2c_dl.worlds.virtual import LinkModel, Onset

ROUNDING_NS = 200
NEVER_S = 1e6
KEYS = ("phase", "task", "iteration", "bucket", "src", "dst", "seq")
BUCKET = virtual_world.profile([5000])  # one: of several, the one may leave sooner because the other is late


def links(size: int, seed: int) -> dict[tuple[int, int], LinkModel]:
    """Random ones, whose buffers hold less than a message, or more."""
    draw = random.Random(f"buffers {seed}")
    return {
        pair: replace(link, send_buffer_bytes=draw.choice([0, 3000, 1 << 17]))
        for pair, link in virtual_world.random_links(size, seed).items()
    }


def run(size: int, seed: int, rank: int, pauses: tuple[tuple[float, float], ...]) -> virtual_world.Run:
    hosts = list(virtual_world.hosts(size, of=BUCKET))
    hosts[rank] = replace(hosts[rank], pauses=pauses)
    return virtual_world.run(Allreduce, size=size, seed=seed, links=links(size, seed), on_hosts=hosts)


def begun_with(size: int, seed: int, rank: int, iteration: int, pause_s: float) -> tuple[virtual_world.Run, int]:
    """The run, and when the pause began, in ns."""
    began: list[int] = []

    def onset(who: int, number: int, now_ns: int) -> Onset | None:
        if (who, number) != (rank, iteration):
            return None
        began.append(now_ns)
        return Onset(paused_s=pause_s)

    of = virtual_world.hosts(size, of=BUCKET)
    outgoing = [(rank, other) for other in range(size)]
    paused = virtual_world.run(
        Allreduce, size=size, seed=seed, links=links(size, seed), on_hosts=of, on_iteration=onset, unsteady=outgoing
    )
    return paused, began[0]


def delays_ns(before: virtual_world.Run, after: virtual_world.Run) -> np.ndarray:
    """How much later every span ends, of all ranks; the same spans must be there."""
    found = []
    for rank in range(len(before.hosts)):
        ours, theirs = (np.sort(each.spans(rank), order=[*KEYS, "end_ns"]) for each in (before, after))
        assert all(np.array_equal(ours[key], theirs[key]) for key in KEYS)
        found.append(theirs["end_ns"].astype(np.int64) - ours["end_ns"].astype(np.int64))
    return np.concatenate(found)


def check(before: virtual_world.Run, after: virtual_world.Run, rank: int, begin_ns: int, end_ns: int) -> None:
    late_ns = delays_ns(before, after)
    assert late_ns.min() >= -ROUNDING_NS
    assert late_ns.max() <= end_ns - begin_ns + ROUNDING_NS
    spans = after.spans(rank)
    for moment in ("posted_ns", "start_ns", "end_ns"):
        assert not ((spans[moment] > begin_ns) & (spans[moment] < end_ns)).any(), moment
    for row in conservation(after.trace):
        assert (row.sent_messages, row.sent_bytes) == (row.received_messages, row.received_bytes)


SEEDS, SIZES = st.integers(0, 10**6), st.integers(2, 5)
PAUSES_S = st.sampled_from([1e-6, 1e-3, 0.02, 0.3, 5.0])


@settings(max_examples=60, deadline=None)
@given(seed=SEEDS, size=SIZES, part=st.floats(0, 1), pause_s=PAUSES_S)
def test_a_pause_delays_by_at_most_its_length(seed: int, size: int, part: float, pause_s: float) -> None:
    rank = seed % size
    steady = run(size, seed, rank, ((NEVER_S, NEVER_S + 1),))
    begin_ns = round(part * steady.result.end_ns)
    end_ns = begin_ns + round(pause_s * 1e9)
    check(steady, run(size, seed, rank, ((begin_ns / 1e9, end_ns / 1e9),)), rank, begin_ns, end_ns)


@settings(max_examples=30, deadline=None)
@given(seed=SEEDS, size=SIZES, iteration=st.integers(0, 4), pause_s=PAUSES_S)
def test_one_that_begins_with_an_iteration_does_too(seed: int, size: int, iteration: int, pause_s: float) -> None:
    rank = seed % size
    steady = run(size, seed, rank, ((NEVER_S, NEVER_S + 1),))
    paused, begin_ns = begun_with(size, seed, rank, iteration, pause_s)
    check(steady, paused, rank, begin_ns, begin_ns + round(pause_s * 1e9))
