"""Measurement of a link, thorough: every property with an interval that says how sure it is. Ten seconds a link.

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

from e2c_dl.emulation.measuring import expected, quick, stream
from e2c_dl.emulation.measuring.datagrams import PING_FRAME_BYTES, open_socket
from e2c_dl.emulation.measuring.measured import Measured, RateFrom, Share, fraction_interval, median_interval
from e2c_dl.emulation.measuring.packet_train import TrainResult
from e2c_dl.emulation.measuring.prober import Prober
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
    *, src_address: str, dst_address: str, port: int, there: Link, back: Link, cap_bps: float = quick.CAP_BPS
) -> Measured:
    """What this host, at ``src_address``, sees of its link ``there`` to the Responder at ``dst_address:port``.

    ``there`` and ``back`` are what was requested of both directions: they set the pace and the patience.
    Raises: EmulationError when nobody answers.
    """
    peer = (dst_address, port)
    with open_socket(src_address, 0) as opened:
        prober = Prober(opened, peer, patience_s=quick.patience_s(there, back), settle_s=quick.settle_s(there))
        trips_s = prober.many_trips_s(PINGS)
        loss_sent, result = _small_frames(prober, there)
        rate_bps, rate_interval, floor = quick.frame_rate(
            prober, there, cap_bps, head_s=HEAD_S, window_s=WINDOW_S, tries=RATE_TRIES
        )
    goodput = _goodput(src_address, peer, there, back)
    rate_from = RateFrom.UDP
    if floor and goodput.steady_bps * goodput.frame_factor > rate_bps:
        factor, (low_bps, high_bps), rate_from = goodput.frame_factor, goodput.steady_interval_bps, RateFrom.TCP
        rate_bps, rate_interval = goodput.steady_bps * factor, (low_bps * factor, high_bps * factor)
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
    frame_bytes, _, _ = quick.overload(link, offered_bps, HEAD_S + seconds)
    frames = max(quick.LEAST_FRAMES, int(offered_bps * (HEAD_S + seconds) / 8 / frame_bytes))
    with open_socket(src_address, 0) as opened:
        # Queues are full when it ends: answers take long.
        prober = Prober(opened, (dst_address, port), patience_s=2.0)
        prober.find_each_other()  # before the common beginning; a link that loses pings is measured all the same
        time.sleep(max(0.0, begin_s - time.time()))  # all links of the bottleneck begin at once
        sent, result = prober.train(frame_bytes, offered_bps, frames, HEAD_S)
    if not result.blocks_ns or result.frame_ns <= 0:
        raise EmulationError(f"measuring: of {sent.frames} frames too few reached {prober.peer}; is its rate near 0?")
    rates_bps = quick.block_rates_bps(result, frame_bytes)
    return Share(
        rate_bps=statistics.median(rates_bps), interval_bps=median_interval(rates_bps), offered_bps=sent.rate_bps
    )


def _small_frames(prober: Prober, link: Link) -> tuple[int, TrainResult]:
    """(frames sent, what arrived), at a pace that leaves queues empty."""
    late_s = link.delay_s + quick.settle_s(link)
    frames_per_s = min(float(LOSS_FRAMES_PER_S), IN_FLIGHT_FRAMES / late_s if late_s else float("inf"))
    if link.rate_bps is not None:
        frames_per_s = min(frames_per_s, LOSS_SHARE * link.rate_bps / 8 / PING_FRAME_BYTES)
    frames = min(LOSS_FRAMES, max(20, int(frames_per_s * LOSS_MAX_S)))
    sent, result = prober.train(PING_FRAME_BYTES, frames_per_s * PING_FRAME_BYTES * 8, frames, 0.0)
    return sent.frames, result


def _goodput(src_address: str, peer: tuple[str, int], there: Link, back: Link) -> stream.Goodput:
    trip_s = quick.requested_round_trip_s(there, back) + there.jitter_s + back.jitter_s
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
