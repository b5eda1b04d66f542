"""Measurement of a link, quick: what it really does between two hosts, seen by them before they train.

::

    21 pings on the idle link            -> round trip: median, and the spread between quartiles
    small frames at half of the rate     -> loss
    full frames at 1.2 times the rate    -> rate: what comes through, after a head start in which bursts may pass
    for 0.7 s or LEAST_FRAMES, at most CAP_BPS

A rate above what was sent cannot be seen: then the measured rate is a floor. Every host runs a Responder; who measures
which link when is ``rounds``, so that no host is in two measurements at once; keeping the rounds apart is the caller's.
:mod:`~e2c_dl.emulation.measuring.thorough` takes ten times as long and says how sure it is.
"""

from __future__ import annotations

import statistics
from collections.abc import Iterable, Mapping, Sequence

from e2c_dl.emulation.measuring import expected
from e2c_dl.emulation.measuring.datagrams import PING_FRAME_BYTES, open_socket
from e2c_dl.emulation.measuring.measured import Interval, Measured, median_interval
from e2c_dl.emulation.measuring.packet_train import TrainResult
from e2c_dl.emulation.measuring.prober import Prober
from e2c_dl.errors import EmulationError
from e2c_dl.topology import Bottleneck, Link, Pair
from e2c_dl.units import FULL_FRAME_BYTES

CAP_BPS = 300e6
"""What Python sends in full frames without taking a whole core."""

PINGS = 21
HEAD_S, WINDOW_S = 0.1, 0.6
OVERLOAD = 1.2  # times the requested rate, so that the link and not the sender decides
SATURATED = 0.97  # less than this of what was sent came through: the link was the limit
MIN_FRAME_BYTES, MIN_FRAMES = 200, 60  # slow links are measured with smaller frames, so that there are enough of them
LEAST_FRAMES = 12  # of very slow ones, however long they take
LOSS_FRAMES, LOSS_FRAMES_MAX, LOSS_RATE_BPS, LOSS_S = 200, 2000, 2.5e6, 1.0
RATE_TRIES = 3
JITTERS = 6  # times the jitter, plus the delay: later than the last frame hardly any other arrives


def rounds(links: Iterable[Pair], bottlenecks: Iterable[Bottleneck] = ()) -> list[list[Pair]]:
    """``links`` in rounds whose members share nothing: no host is in a round twice, no bottleneck either.

    The order of ``links`` does not matter. The fewer rounds of two ways to fill them, each link into the first that
    has room: by name, which few links need, and as in a tournament, which gives all pairs of n hosts 2 (n - 1) rounds
    (2 n of an odd number): the least there is.
    """
    wanted = sorted(set(links))
    shared = {pair: f"bottleneck {each.name}" for each in bottlenecks for pair in each.links}
    return min((_filled(order, shared) for order in (wanted, _tournament(wanted))), key=len)


def _filled(links: Iterable[Pair], shared: Mapping[Pair, str]) -> list[list[Pair]]:
    filled: list[tuple[list[Pair], set[str]]] = []  # (members, what they use)
    for link in links:
        uses = {*link, shared.get(link, link[0])}
        for members, used in filled:
            if not uses & used:
                members.append(link)
                used |= uses
                break
        else:
            filled.append(([link], uses))
    return [sorted(members) for members, _ in filled]


def _tournament(links: Sequence[Pair]) -> list[Pair]:
    """``links`` in the order of a tournament's rounds (the circle method: one stays, the others go round), and back."""
    place = {host: number for number, host in enumerate(sorted({host for link in links for host in link}))}
    turning = len(place) - 1 + len(place) % 2  # of an odd number one rests in each round

    def played(link: Pair) -> tuple[bool, int, Pair]:
        first, second = sorted((place[link[0]], place[link[1]]))
        return link[0] > link[1], (2 * first if second == turning else first + second) % max(1, turning), link

    return sorted(links, key=played)


def requested_round_trip_s(there: Link, back: Link) -> float:
    """What the median ping should take: both delays, and the time that its frame takes on both links."""
    return expected.round_trip_s(there, back, PING_FRAME_BYTES)[0]


def patience_s(there: Link, back: Link) -> float:
    """How long an answer is worth waiting for."""
    return 0.5 + 4 * (requested_round_trip_s(there, back) + there.jitter_s + back.jitter_s)


def settle_s(link: Link) -> float:
    """How much later than one frame another that was sent before it may arrive."""
    return (link.delay_s if link.reorder else 0.0) + JITTERS * link.jitter_s


def measure_link(
    *, src_address: str, dst_address: str, port: int, there: Link, back: Link, cap_bps: float = CAP_BPS
) -> Measured:
    """What this host, at ``src_address``, sees of its link ``there`` to the Responder at ``dst_address:port``.

    ``there`` and ``back`` are what was requested of both directions: they set the pace and the patience. Takes about
    a second plus some 25 round trips.

    Raises: EmulationError when nobody answers.

    >>> from e2c_dl.emulation.measuring.responder import Responder
    >>> with Responder("127.0.0.2", 0) as responder:  # on the other host
    ...     seen = measure_link(
    ...         src_address="127.0.0.1", dst_address="127.0.0.2", port=responder.port, there=Link(), back=Link()
    ...     )
    >>> seen.loss, seen.pings  # the loopback device loses nothing
    (0.0, 21)
    """
    with open_socket(src_address, 0) as opened:
        prober = Prober(opened, (dst_address, port), patience_s=patience_s(there, back), settle_s=settle_s(there))
        trips_s = prober.trips_s(PINGS)
        loss, loss_samples = _loss(prober, there)
        rate_bps, _, floor = frame_rate(prober, there, cap_bps, head_s=HEAD_S, window_s=WINDOW_S, tries=RATE_TRIES)
    quartiles = statistics.quantiles(trips_s, n=4)
    return Measured(
        rate_bps=rate_bps,
        rate_is_floor=floor,
        round_trip_s=statistics.median(trips_s),
        round_trip_spread_s=quartiles[2] - quartiles[0],
        pings=len(trips_s),
        loss=loss,
        loss_samples=loss_samples,
    )


def _loss(prober: Prober, link: Link) -> tuple[float, int]:
    """(fraction lost, frames sent), at half of the link's rate."""
    pace_bps = min(LOSS_RATE_BPS, LOSS_RATE_BPS if link.rate_bps is None else link.rate_bps / 2)
    requested = link.mean_loss
    wanted = LOSS_FRAMES if requested == 0 else min(LOSS_FRAMES_MAX, max(LOSS_FRAMES, round(30 / requested)))
    frames = max(20, min(wanted, int(pace_bps * LOSS_S / 8 / PING_FRAME_BYTES)))
    sent, result = prober.train(PING_FRAME_BYTES, pace_bps, frames, 0.0)
    return max(0.0, 1 - result.arrived / sent.frames), sent.frames


def frame_rate(
    prober: Prober, link: Link, cap_bps: float, *, head_s: float, window_s: float, tries: int
) -> tuple[float, Interval, bool]:
    """(bits per second of frames that came through, its interval, whether the link could have carried more).

    Raises: EmulationError when nothing came through.
    """
    frame_bytes, pace_bps, frames = overload(link, cap_bps, head_s + window_s)
    seen: list[tuple[float, Interval]] = []
    for _ in range(tries):
        sent, result = prober.train(frame_bytes, pace_bps, frames, head_s)
        if rates_bps := block_rates_bps(result, frame_bytes):
            rate_bps, interval_bps = statistics.median(rates_bps), median_interval(rates_bps)
            if sent.held_back or result.passed < SATURATED * _passing(link):
                return rate_bps, interval_bps, False  # not all came that the link does not lose: it was the limit
            # Frames that waited together for a core arrive within nanoseconds: seen is no more than what was sent.
            most_bps = sent.rate_bps
            seen.append((min(rate_bps, most_bps), (min(interval_bps[0], most_bps), min(interval_bps[1], most_bps))))
        if sent.rate_bps >= SATURATED * pace_bps:
            break  # the sender did all it could: another train would show the same; else it had to wait for a core
    if not seen:
        raise EmulationError(f"measuring: too few of {frames} frames reached {prober.peer}; is its rate near zero?")
    return *max(seen), True  # what a stalled machine held back says nothing of the link


def block_rates_bps(result: TrainResult, frame_bytes: int) -> list[float]:
    """Rates of a packet train, block by block; a block whose frames came at one moment has none."""
    return [frame_bytes * 8e9 / block_ns for block_ns in result.blocks_ns if block_ns > 0]


def overload(link: Link, cap_bps: float, seconds: float) -> tuple[int, float, int]:
    """(bytes of a frame, pace in bits per second, frames) that make ``link`` the limit, if ``cap_bps`` allows it."""
    pace_bps = cap_bps if link.rate_bps is None else min(cap_bps, OVERLOAD * link.rate_bps / _passing(link))
    enough = int(pace_bps * seconds / 8 / MIN_FRAMES)  # bytes of a frame, if that many are to fit
    frame_bytes = min(FULL_FRAME_BYTES, max(MIN_FRAME_BYTES, enough))
    return frame_bytes, pace_bps, max(LEAST_FRAMES, int(pace_bps * seconds / 8 / frame_bytes))


def _passing(link: Link) -> float:
    return max(0.05, 1 - link.mean_loss)  # of a link that loses nearly all, a pace that ends
