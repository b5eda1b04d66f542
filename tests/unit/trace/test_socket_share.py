"""However long an iteration is, and however many connections move in it, it has so many samples and no more."""

from __future__ import annotations

import struct
from collections.abc import Collection
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from e2c_dl.trace.model import Phase
from e2c_dl.trace.places import recorded
from e2c_dl.trace.propagation import tcp_info
from e2c_dl.trace.propagation.samples import Connection, Samples, convert_samples, read_samples
from e2c_dl.trace.propagation.sockets import SocketSampler
from e2c_dl.trace.propagation.sockets.own import Told
from e2c_dl.trace.propagation.sockets.share import LONG, MOST_SAMPLES, Share
from e2c_dl.trace.recording.recorder import Recorder

LOOK_S = 0.1
SPANS = 40  # of a rank's iteration: 5 buckets of DDP's have some 20
BAR_BYTES = 10_000


class Moving:
    """Connections that have carried something more at every look."""

    def __init__(self, count: int) -> None:
        self._connections = [
            Connection(cookie=1 + each, local=("10.0.0.1", 1 + each), remote=("10.0.0.2", 1 + each))
            for each in range(count)
        ]
        self._told, self._carried = False, 0

    def rescan(self) -> list[Connection]:
        found, self._told = [] if self._told else self._connections, True
        return found

    def read(self, *, ends: bool = False) -> list[Told]:
        self._carried += 1000
        raw = bytearray(tcp_info.LENGTH)
        struct.pack_into("=Q", raw, tcp_info.FIELDS["bytes_acked"][0], self._carried)
        return [(each.cookie.to_bytes(8, "little"), 2, bytes(raw)) for each in self._connections]

    def small(self, cookies: Collection[int]) -> None:
        """None is."""


def sampled(folder: Path, lasting_s: list[float], connections: int, cap_bytes: int | None = None) -> Samples:
    """What a rank leaves whose iterations last so long, looked at ten times a second."""
    own = recorded(folder, "a")
    own.folder.path.mkdir(parents=True)
    now_ns = 0
    with SocketSampler(
        own.connections_raw.path, rank=0, host="a", source=Moving(connections), rate_hz=0, clock=lambda: now_ns,
        flush_every_s=60, cap_bytes=cap_bytes,
    ) as sampler:  # fmt: skip
        sampler.iteration(0)
        for number, last_s in enumerate(lasting_s):
            for look in range(1, round(last_s / LOOK_S)):
                sampler._sample(now_ns + round(look * LOOK_S * 1e9), ends=False)
                if look % 9 == 0:
                    sampler._log.flush()
            now_ns += round(last_s * 1e9)
            sampler.iteration(number + 1)
            sampler._log.flush()
    found = read_samples(own)
    assert found is not None
    return found


@pytest.mark.parametrize(("connections", "apart_s"), [(1, 1), (2, 2), (4, 4), (8, 7)])
def test_an_iteration_of_ten_seconds_stays_within_10_kb(connections: int, apart_s: int, tmp_path: Path) -> None:
    samples = sampled(tmp_path, [10.0] * 5, connections)
    with Recorder(tmp_path / "spans.bin", rank=0, host="a", layer="all") as recorder:
        for number in range(5 * SPANS):
            recorder.record(Phase.STEP, number, number, number + 1, iteration=number // SPANS)
    size_bytes = sum((tmp_path / name).stat().st_size for name in ("hosts/a/connections.bin", "spans.bin"))
    assert size_bytes / 5 <= BAR_BYTES
    assert all(np.sum(samples.iteration == number) <= MOST_SAMPLES for number in range(5))
    ends = [samples.time_ns[samples.iteration == number].max() for number in range(5)]
    assert ends == [round(10e9) * (number + 1) for number in range(5)], "boundaries are always kept"
    last = np.unique(samples.time_ns[samples.iteration == 4]) - ends[3]
    assert np.diff(last, prepend=0).max() <= apart_s * 1e9, "all of it, evenly"


def test_what_fits_is_kept_whole(tmp_path: Path) -> None:
    samples = sampled(tmp_path, [0.8] * 3, 2)
    assert [np.sum(samples.iteration == number) for number in range(3)] == [16] * 3


def test_an_iteration_that_goes_on_is_told_of_ever_more_rarely(tmp_path: Path) -> None:
    samples = sampled(tmp_path, [1.0, 1.0, 60.0], 1)
    at_s = (samples.time_ns[samples.iteration == 2] - 2e9) / 1e9
    assert len(at_s) <= MOST_SAMPLES
    assert at_s[0] <= 0.2 and np.sum(at_s < 2) >= 10
    assert at_s[-1] == 60
    assert np.all(at_s[1:] <= 2 * at_s[:-1] + LOOK_S)


def test_the_ends_of_many_connections_are_all_kept_and_nothing_within(tmp_path: Path) -> None:
    samples = sampled(tmp_path, [2.0] * 2, MOST_SAMPLES + 1)
    assert [np.sum(samples.iteration == number) for number in range(2)] == [MOST_SAMPLES + 1] * 2


SLOW = [number for number in range(400) if number % 40 == 7]


@pytest.mark.parametrize("connections", [1, 3])
def test_with_a_cap_slow_iterations_are_kept_and_the_sum_of_all(connections: int, tmp_path: Path) -> None:
    cap_bytes = 150_000
    samples = sampled(tmp_path, [0.6 if each in SLOW else 0.2 for each in range(400)], connections, cap_bytes)
    assert recorded(tmp_path, "a").connections_raw.path.stat().st_size <= cap_bytes
    count = {number: int(np.sum(samples.iteration == number)) for number in range(400)}
    whole = sampled(tmp_path / "whole", [0.6 if each in SLOW else 0.2 for each in range(400)], connections)
    assert (samples.dropped, samples.lost) == (len(whole.raw) - len(samples.raw), 0)
    first = next(number for number in count if count[number] < 2 * connections)
    assert first > 50 / connections
    assert all(count[number] == 6 * connections for number in SLOW), "all that is known of them"
    others = [number for number in range(first + 1, 399) if number not in SLOW]
    assert {count[number] for number in others if number + 1 in SLOW} == {connections}, "where they began"
    assert {count[number] for number in others if number + 1 not in SLOW} == {0}
    assert samples.raw[-1] == whole.raw[-1]
    convert_samples(recorded(tmp_path, "a"))
    again = read_samples(recorded(tmp_path, "a"))
    assert again is not None and again.dropped == samples.dropped


def test_a_cap_that_is_reached_leaves_room_for_the_last_round(tmp_path: Path) -> None:
    samples = sampled(tmp_path, [0.2 * 1.1**each for each in range(60)], 3, cap_bytes=40_000)
    assert recorded(tmp_path, "a").connections_raw.path.stat().st_size <= 40_000
    assert samples.dropped > 0
    assert np.sum(samples.iteration == 60) == 3


@given(st.lists(st.lists(st.integers(0, 9), max_size=LONG - 1), max_size=5), st.integers(9, 40))
def test_no_iteration_has_more_whatever_moves_in_it(iterations: list[list[int]], active: int) -> None:
    share = Share()
    for moved in iterations:
        kept = sum(moving for moving in moved if share.takes(moving, active))
        assert kept + active <= max(active, MOST_SAMPLES)
        share.ended(active)


@given(st.lists(st.integers(0, 3 * LONG), max_size=3), st.integers(1, 40), st.integers(1, 100 * LONG))
def test_one_that_goes_on_is_told_of_after_twice_the_time_and_not_more_often(
    before: list[int], moving: int, rounds: int
) -> None:
    share, longest = Share(), 0
    for length in before:
        for _ in range(length):
            share.takes(moving, moving)
        share.ended(moving)
        longest = length
    kept = [number for number in range(1, rounds + 1) if share.takes(moving, moving)]
    assert rounds < 2 * max(LONG, longest, *kept)
    beyond = [number for number in kept if number >= max(LONG, 2 * longest)]
    assert len(kept) * moving <= MOST_SAMPLES + len(beyond) * moving
    assert len(beyond) <= MOST_SAMPLES / moving + 1 + np.log2(max(1, rounds / LONG))
