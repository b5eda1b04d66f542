"""Measuring a link thoroughly: every property with an interval that says how sure it is. About ten seconds per link.

::

    101 pings, one every 10 ms             -> round trip
    10,000 small frames, below the rate    -> loss, lengths of its runs, spread of the one-way delay, order
    frames at 1.2 times the rate           -> rate, in Ethernet frames; a link too fast for that: TCP's, in frames
    one TCP connection                     -> goodput, beside the rate

Links that share a bottleneck are measured together by ``share``: each is offered what makes their sum too much.
"""

from __future__ import annotations

import statistics
import time
from typing import Any

from e2c_dl.emulation.measuring import expected, stream
from e2c_dl.emulation.measuring.datagrams import PING_FRAME_BYTES, open_socket
from e2c_dl.emulation.measuring.intervals import Interval, fraction_interval, median_interval
from e2c_dl.emulation.measuring.measured import Measured, RateFrom, Share
from e2c_dl.emulation.measuring.packet_train import TrainResult
from e2c_dl.emulation.measuring.prober import Probe
from e2c_dl.emulation.measuring.quick import (
    CAP_BPS,
    is_floor,
    kept_pace,
    overload,
    patience_s,
    requested_round_trip_s,
    settle_s,
)
from e2c_dl.errors import EmulationError
from e2c_dl.topology import Link

PINGS = 101
HEAD_S, WINDOW_S, RATE_TRIES = 0.3, 1.5, 5
LOSS_FRAMES = 10_000
LOSS_SHARE = 0.7  # of the rate: fast, and yet no queue
LOSS_FRAMES_PER_S = 4000
IN_FLIGHT_FRAMES = 600  # netem's queue counts frames, however small, and holds 1000 by default
LOSS_MAX_S = 40.0  # of links below 0.2 Mbit/s: fewer frames then
TCP_HEAD_S, TCP_WINDOW_S, TCP_ROUND_TRIPS, TCP_HEAD_MAX_S = 0.5, 1.5, 12, 6.0
CLAMP_BYTES, CLAMP_UNSHAPED_BYTES = 1 << 16, 1 << 24


def measure_thoroughly(
    *, src_address: str, dst_address: str, port: int, there: Link, back: Link, cap_bps: float = CAP_BPS
) -> Measured:
    """What this host, at ``src_address``, sees of its link ``there`` to the Responder at ``dst_address:port``.

    ``there`` and ``back`` are what was requested of both directions: they set the pace and the patience.
    Raises: EmulationError when nobody answers.
    """
    peer = (dst_address, port)
    with open_socket(src_address, 0) as opened:
        probe = Probe(opened, peer, patience_s=patience_s(there, back), settle_s=settle_s(there))
        trips_s = probe.many_trips_s(PINGS)
        loss_sent, result = _small_frames(probe, there)
        rate_bps, rate_interval, floor = _rate(probe, there, cap_bps)
    goodput = _goodput(src_address, peer, there, back)
    rate_from = RateFrom.UDP
    if floor and goodput.steady_bps * goodput.frame_factor > rate_bps:
        factor, rate_from = goodput.frame_factor, RateFrom.TCP
        rate_bps, rate_interval = goodput.steady_bps * factor, _times(goodput.steady_interval_bps, factor)
        floor = there.rate_bps is None  # TCP fills what there is
    quartiles = statistics.quantiles(trips_s, n=4)
    lost = max(0, loss_sent - result.arrived)
    return Measured(
        rate_bps=rate_bps, rate_is_floor=floor, rate_interval_bps=rate_interval, rate_from=rate_from,
        goodput_bps=goodput.rate_bps, goodput_interval_bps=goodput.interval_bps,
        round_trip_s=statistics.median(trips_s), round_trip_spread_s=quartiles[2] - quartiles[0],
        round_trip_interval_s=median_interval(trips_s), pings=len(trips_s),
        loss=lost / loss_sent, loss_samples=loss_sent, thorough=True,
        loss_interval=fraction_interval(
            lost * (effective := expected.independent(loss_sent, there)) / loss_sent, effective
        ),
        **_shape(result),
    )  # fmt: skip


def share(
    *, src_address: str, dst_address: str, port: int, offered_bps: float, begin_s: float, seconds: float
) -> Share:
    """What came through of ``offered_bps`` of full frames, sent from the Unix time ``begin_s`` on.

    Raises: EmulationError when nobody answers.
    """
    link = Link(rate_bps=offered_bps)
    frame_bytes, _, _ = overload(link, offered_bps, HEAD_S + seconds)
    frames = max(2, int(offered_bps * (HEAD_S + seconds) / 8 / frame_bytes))
    with open_socket(src_address, 0) as opened:
        # Queues are full when it ends: answers take long.
        probe = Probe(opened, (dst_address, port), patience_s=2.0)
        probe.trips_s(3)
        time.sleep(max(0.0, begin_s - time.time()))
        sent, result = probe.train(frame_bytes, offered_bps, frames, HEAD_S)
    if not result.blocks_ns or result.frame_ns <= 0:
        raise EmulationError(f"measuring: of {sent.frames} frames too few reached {probe.peer}; is its rate near zero?")
    rates_bps = [frame_bytes * 8e9 / block_ns for block_ns in result.blocks_ns if block_ns > 0]
    return Share(
        rate_bps=statistics.median(rates_bps), interval_bps=median_interval(rates_bps), offered_bps=sent.rate_bps
    )


def _small_frames(probe: Probe, link: Link) -> tuple[int, TrainResult]:
    """(frames sent, what arrived), at a pace that leaves queues empty."""
    late_s = link.delay_s + settle_s(link)
    frames_per_s = min(float(LOSS_FRAMES_PER_S), IN_FLIGHT_FRAMES / late_s if late_s else float("inf"))
    if link.rate_bps is not None:
        frames_per_s = min(frames_per_s, LOSS_SHARE * link.rate_bps / 8 / PING_FRAME_BYTES)
    frames = min(LOSS_FRAMES, max(20, int(frames_per_s * LOSS_MAX_S)))
    sent, result = probe.train(PING_FRAME_BYTES, frames_per_s * PING_FRAME_BYTES * 8, frames, 0.0)
    return sent.frames, result


def _rate(probe: Probe, link: Link, cap_bps: float) -> tuple[float, Interval, bool]:
    """(bits per second of frames that came through, its interval, whether the link could have carried more)."""
    frame_bytes, pace_bps, frames = overload(link, cap_bps, HEAD_S + WINDOW_S)
    seen: list[tuple[float, Interval]] = []
    for _ in range(RATE_TRIES):
        sent, result = probe.train(frame_bytes, pace_bps, frames, HEAD_S)
        rates_bps = [frame_bytes * 8e9 / block_ns for block_ns in result.blocks_ns if block_ns > 0]
        if rates_bps:
            rate_bps = statistics.median(rates_bps)
            seen.append((rate_bps, median_interval(rates_bps)))
            if not is_floor(sent, result, link):
                return *seen[-1], False
        if kept_pace(sent, pace_bps):
            break
    if not seen:
        raise EmulationError(f"measuring: too few of {frames} frames reached {probe.peer}; is its rate near zero?")
    return *max(seen), True


def _goodput(src_address: str, peer: tuple[str, int], there: Link, back: Link) -> stream.Goodput:
    trip_s = requested_round_trip_s(there, back) + there.jitter_s + back.jitter_s
    finding_s = 0.0 if there.mean_loss else TCP_ROUND_TRIPS * trip_s  # with losses, TCP never finds it
    needed = CLAMP_UNSHAPED_BYTES if there.rate_bps is None else CLAMP_BYTES + int(2 * there.rate_bps * trip_s / 8)
    return stream.send(
        src_address, peer, head_s=min(TCP_HEAD_MAX_S, TCP_HEAD_S + finding_s), window_s=TCP_WINDOW_S + 4 * trip_s,
        clamp_bytes=needed,
    )  # fmt: skip


def _shape(result: TrainResult) -> dict[str, Any]:
    """Fields of Measured: how delays spread, what overtook, how losses come together."""
    spreads_s = [spread_ns / 1e9 for spread_ns in result.spreads_ns]
    return {
        "delay_spread_s": statistics.median(spreads_s) if spreads_s else None,
        "delay_spread_interval_s": median_interval(spreads_s) if spreads_s else None,
        "reordered": result.reordered / result.arrived if result.arrived else None,
        # Frames for which the socket had no room are missing without being lost: then the runs mean nothing.
        "loss_burst": result.lost_in_runs / result.lost_runs if result.lost_runs and not result.overflowed else None,
    }


def _times(interval: Interval, factor: float) -> Interval:
    return interval[0] * factor, interval[1] * factor
