"""Laws of links that the relay carries: bytes are conserved, order kept, rates obeyed, chance is as requested."""

from __future__ import annotations

import math
import random
import statistics
from itertools import accumulate, pairwise

from gso_frames import Parsed, frames
from hypothesis import given, settings
from hypothesis import strategies as st
from relay_wire import A_TO_B, Wire, frame, mac

from e2c_dl.emulation.link_values import HOLD_S
from e2c_dl.emulation.relay.frames import cut, shape
from e2c_dl.topology import Bottleneck, BurstLoss, Discipline, Distribution, Link

C_TO_B = ("c", "b")
rates_bps = st.floats(1e4, 1e9)
delays_s = st.floats(0, 0.1)
fractions = st.sampled_from((0.0, 0.1, 0.9, 1.0))
bursts = st.none() | st.builds(
    BurstLoss,
    good_to_bad=st.floats(0, 1),
    bad_to_good=st.floats(0.01, 1),
    loss_in_bad=fractions,
    loss_in_good=fractions,
)
offers = st.lists(st.tuples(st.floats(0, 0.01), frames()), min_size=1, max_size=15)


@st.composite
def links(draw, *, ordered=False):
    burst = draw(bursts)
    return Link(
        rate_bps=draw(st.none() | rates_bps),
        delay_s=draw(delays_s),
        loss=draw(fractions) if burst is None else 0.0,
        jitter_s=0.0 if ordered else draw(st.sampled_from((0.0, 0.001, 0.1))),
        distribution=draw(st.sampled_from(Distribution)),
        burst=burst,
        reorder=0.0 if ordered else draw(fractions),
        queue_bytes=draw(st.none() | st.integers(1514, 20000)),
        down=draw(st.integers(0, 9)) == 0,
    )


def wire_bytes(buffer):
    return shape(buffer).wire_bytes(0, shape(buffer).segments)


def segments(buffers):
    return sum(shape(buffer).segments for buffer in buffers)


def buffers_of(wire):
    return [buffer for _, _, buffer in wire.handed]


CAUSES = ("dropped_loss", "dropped_down", "dropped_queue", "dropped_bottleneck")
changes = st.lists(st.tuples(links(), st.none() | rates_bps), min_size=1, max_size=4)
ordered_changes = st.lists(st.tuples(links(ordered=True), st.none() | rates_bps), min_size=1, max_size=4)


def carried_through(offered, changes, limit_bytes, flows, discipline):
    """A wire whose two links, in a bottleneck if it has a rate at first, change with every frame; all have arrived."""
    link, shared_bps = changes[0]
    campus = Bottleneck(
        name="campus", rate_bps=shared_bps or 1.0, links=(A_TO_B, C_TO_B), queue_bytes=limit_bytes,
        discipline=discipline,
    )  # fmt: skip
    wire = Wire({A_TO_B: link, C_TO_B: link}, *([] if shared_bps is None else [campus]))
    for number, ((wait_s, buffer), src) in enumerate(zip(offered, flows, strict=False)):
        link, rate_bps = changes[number % len(changes)]
        rates = {} if shared_bps is None or rate_bps is None else {"campus": rate_bps}
        wire.until(wire.now_s + wait_s).change({A_TO_B: link, C_TO_B: link}, **rates).send(buffer, src=src)
    return wire.until(1e7)


disciplines = st.sampled_from(Discipline)
senders = st.lists(st.sampled_from((0, 2)), min_size=15, max_size=15)


@settings(max_examples=50)
@given(offers, changes, st.integers(1514, 20000), senders, disciplines)
def test_what_comes_in_is_carried_or_dropped_for_one_cause_whatever_changes(
    offered, changes, limit_bytes, flows, discipline
):
    wire = carried_through(offered, changes, limit_bytes, flows, discipline)
    rows = [wire.row("a"), wire.row("c")]
    carried = sum(row["segments"] for row in rows)
    dropped = sum(row[cause] for row in rows for cause in CAUSES)
    assert sum(row["frames"] for row in rows) == len(offered)
    assert segments(buffer for _, buffer in offered) == carried + dropped
    assert segments(buffers_of(wire)) == carried
    assert sum(map(wire_bytes, buffers_of(wire))) == sum(row["bytes"] for row in rows)
    assert wire.switch.next_due_s() == math.inf
    assert [row["late"] + row["dropped_host"] for row in rows] == [0, 0]
    for bottleneck in wire.switch.report()["bottlenecks"]:
        assert (bottleneck["segments"], bottleneck["dropped_queue"]) == (
            carried,
            sum(row["dropped_bottleneck"] for row in rows),
        )


def payloads_of(buffer):
    return [Parsed(cut(buffer, shape(buffer), one, 1)).payload for one in range(shape(buffer).segments)]


@settings(max_examples=50)
@given(offers, ordered_changes, st.integers(1514, 20000), senders, st.integers(0, 1), disciplines)
def test_without_jitter_and_reordering_order_is_kept_whatever_changes(
    offered, changes, limit_bytes, flows, one, discipline
):
    """Of one of the two flows: their frames tell by the last byte of the source's address."""
    sent = list(zip(offered, flows, strict=False))
    marked = [(wait_s, buffer[:21] + bytes([src]) + buffer[22:]) for (wait_s, buffer), src in sent]
    wire = carried_through(marked, changes, limit_bytes, flows, discipline)
    rest = iter([payload for _, buffer in marked if buffer[21] == 2 * one for payload in payloads_of(buffer)])
    arrived = [payload for buffer in buffers_of(wire) if buffer[21] == 2 * one for payload in payloads_of(buffer)]
    assert all(payload in rest for payload in arrived)  # a subsequence


@given(offers, rates_bps, delays_s, st.sampled_from((0.0, 0.1, 0.9, 1.0)), st.integers(1514, 20000))
def test_a_link_never_beats_its_rate_nor_keeps_what_came_longer_than_its_queue(
    offered, rate_bps, delay_s, loss, limit_bytes
):
    wire = Wire({A_TO_B: Link(rate_bps=rate_bps, delay_s=delay_s, loss=loss, queue_bytes=limit_bytes)})
    for wait_s, buffer in offered:
        wire.until(wire.now_s + wait_s).send(buffer)
    sent_s = wire.now_s
    wire.until(1e6)
    row = wire.row()
    for piece in buffers_of(wire):
        assert shape(piece).segments == 1 or wire_bytes(piece) * 8 / rate_bps <= HOLD_S * (1 + 1e-9)
    if wire.handed:
        assert (wire.times_s[-1] - delay_s) * rate_bps / 8 >= row["bytes"] * (1 - 1e-9)
        assert wire.times_s[-1] <= sent_s + delay_s + limit_bytes * 8 / rate_bps * (1 + 1e-9) + 1e-9


@given(st.lists(frames(), min_size=1, max_size=10), st.floats(1e5, 1e8), delays_s)
def test_a_link_that_is_never_idle_carries_exactly_its_rate(buffers, rate_bps, delay_s):
    wire = Wire({A_TO_B: Link(rate_bps=rate_bps, delay_s=delay_s)}).at(5.0)
    for buffer in buffers:
        wire.send(buffer)
    wire.until(1e6)
    assert abs(wire.times_s[-1] - (5.0 + sum(map(wire_bytes, buffers)) * 8 / rate_bps + delay_s)) < 1e-9


@given(
    st.lists(st.tuples(st.floats(0.001, 0.05), st.floats(1e6, 1e8)), min_size=2, max_size=8),
    st.booleans(),
    st.floats(0, 0.05),
)
def test_a_backlog_passes_at_the_rate_in_force_over_every_window(steps, shared, delay_s):
    """(seconds, rate) one after the other; what waits is carried at the rate of the moment, not of its coming."""
    campus = Bottleneck(name="campus", rate_bps=steps[0][1], links=(A_TO_B,), queue_bytes=10**9)
    own = Link(rate_bps=None if shared else steps[0][1], delay_s=delay_s, queue_bytes=10**9)
    wire = Wire({A_TO_B: own}, *([campus] if shared else []))
    data = frame(mac(2), 1500)
    total_bits = sum(duration_s * rate for duration_s, rate in steps)
    for _ in range(int(total_bits / 12000) + 1):
        wire.send(data)
    begins_s = [0.0]
    for duration_s, rate_bps in steps:
        if shared:
            wire.change({}, campus=rate_bps)
        else:
            wire.change({A_TO_B: Link(rate_bps=rate_bps, delay_s=delay_s, queue_bytes=10**9)})
        begins_s.append(begins_s[-1] + duration_s)
        wire.until(begins_s[-1])
    wire.until(begins_s[-1] + delay_s)

    def bits_by(now_s):
        spans = zip(begins_s[:-1], steps, strict=True)
        within = [max(0.0, min(duration_s, now_s - begin_s)) for begin_s, (duration_s, _) in spans]
        return sum(length_s * rate for length_s, (_, rate) in zip(within, steps, strict=True))

    for number, arrived_s in enumerate(wire.times_s, 1):
        if arrived_s - delay_s < begins_s[-1]:
            assert abs(bits_by(arrived_s - delay_s) - number * 12000) < 12000 * 1e-3


@given(st.lists(frames(), min_size=1, max_size=10), st.floats(0.01, 0.99), bursts, st.integers(0, 100))
def test_which_segments_are_lost_does_not_depend_on_how_they_are_grouped(buffers, loss, burst, seed):
    lossy = {A_TO_B: Link(loss=loss) if burst is None else Link(burst=burst)}
    together, apart = Wire(lossy, seed=seed), Wire(lossy, seed=seed)
    for buffer in buffers:
        together.send(buffer)
        for segment in range(shape(buffer).segments):
            apart.send(cut(buffer, shape(buffer), segment, 1))
    payloads = [
        b"".join(Parsed(buffer).payload for buffer in buffers_of(wire.until(1.0))) for wire in (together, apart)
    ]
    assert payloads[0] == payloads[1]
    assert together.row()["dropped_loss"] == apart.row()["dropped_loss"]


@settings(max_examples=30)
@given(offers, links(), st.integers(0, 5))
def test_the_same_seed_does_the_same(offered, link, seed):
    def run():
        wire = Wire({A_TO_B: link}, seed=seed)
        for wait_s, buffer in offered:
            wire.until(wire.now_s + wait_s).send(buffer)
        return wire.until(1e3).handed

    assert run() == run()


MANY = 100_000


@settings(max_examples=10)
@given(st.sampled_from(Distribution), st.floats(0, 0.05), st.floats(0.001, 0.02), st.integers(0, 99))
def test_jitter_moves_arrivals_around_the_delay_and_never_before_it_begins(distribution, delay_s, jitter_s, seed):
    wire = Wire({A_TO_B: Link(delay_s=delay_s, jitter_s=jitter_s, distribution=distribution)}, seed=seed)
    for number in range(2000):
        wire.send(frame(mac(2), 100 + number))
    wire.until(100.0)
    assert len(wire.handed) == 2000 and wire.times_s[0] >= 0
    middle_s = statistics.median(wire.times_s)
    if distribution is not Distribution.PARETO:  # whose median lies below its mean
        assert abs(middle_s - delay_s) < 0.15 * jitter_s
    sizes = [len(buffer) for _, _, buffer in wire.handed]
    assert sizes != sorted(sizes)  # they overtook each other


@settings(max_examples=10)
@given(st.floats(0.01, 0.99), st.integers(0, 99))
def test_reordered_segments_skip_the_delay_as_often_as_asked(reorder, seed):
    wire = Wire({A_TO_B: Link(delay_s=1.0, reorder=reorder)}, seed=seed)
    for _ in range(5000):
        wire.send(frame(mac(2)))
    wire.until(10.0)
    early = sum(now_s == 0 for now_s in wire.times_s)
    assert set(wire.times_s) <= {0.0, 1.0}
    assert abs(early / 5000 - reorder) < 6 * math.sqrt(reorder * (1 - reorder) / 5000)


@settings(max_examples=10, deadline=None)
@given(
    st.integers(2, 4), st.floats(1e6, 1e8), st.floats(1.05, 3), st.none() | st.floats(0.5, 1.5), st.integers(0, 10**6)
)
def test_a_bottleneck_is_never_beaten_and_shared_evenly_by_equal_demand(flows, rate_bps, overload, own, seed):
    names = "abcde"[: flows + 1]
    dst = names[-1]
    pairs = tuple((src, dst) for src in names[:-1])
    campus = Bottleneck(name="campus", rate_bps=rate_bps, links=pairs, queue_bytes=50 * 1514)
    own_bps = None if own is None else own * overload * rate_bps / flows
    wire = Wire({pair: Link(rate_bps=own_bps) for pair in pairs}, campus, names=names)
    rng = random.Random(seed)
    mean_s = 1000 * 8 * flows / (overload * rate_bps)  # between frames of one flow
    data = frame(mac(len(names)))
    flowing = [list(accumulate(rng.expovariate(1 / mean_s) for _ in range(1500))) for _ in range(flows)]
    end_s = min(times_s[-1] for times_s in flowing)
    for now_s, src in sorted((now_s, src) for src, times_s in enumerate(flowing) for now_s in times_s):
        if now_s <= end_s:
            wire.until(now_s).send(data, src=src)
    shares = [wire.row(src, dst)["segments"] for src in names[:-1]]  # now: whoever has more left then is alone
    wire.until(1e6)
    assert all(b - a >= 8000 / rate_bps * (1 - 1e-6) for a, b in pairwise(wire.times_s))
    assert max(shares) < 1.15 * min(shares)
    offered_bps = flows * min(overload * rate_bps / flows, own_bps or math.inf)
    if offered_bps > 1.05 * rate_bps:  # always something to do, but for the beginning
        assert sum(shares) * 8000 > 0.9 * rate_bps * end_s
