"""One trial: a clock that is wrong by a known amount, aligned as a live worker does, judged against the truth."""

from __future__ import annotations

import random
import time
from dataclasses import dataclass

import numpy as np

from benchmarks.clocks.link import slow
from e2c_dl.trace.clocks.clock import EVERY_S, ClockServer, ReferenceClock, exchange
from e2c_dl.trace.clocks.skew import Skew, TraceClock
from e2c_dl.trace.model import ClockAlignment

WRONG_S, DRIFT, STEP_S = 0.05, 50e-6, 0.05
THERE_S, BACK_S = 0.025, 0.005
ASYMMETRY_NS = round((THERE_S - BACK_S) * 1e9)
MANAGEMENT, DATA, STEPS = "management network", "data link, 20 ms asymmetry", "a step of 50 ms, management network"
KINDS = (MANAGEMENT, DATA, STEPS)
MOMENTS = 200


@dataclass(frozen=True, kw_only=True)
class Trial:
    """What came out, in ns. ``worst`` and the rest are of moments spread over the trial, a step's window left out."""

    kind: str
    worst_ns: int
    uncertainty_ns: int
    least_round_trip_ns: int
    covered: bool  # all moments, those in a window too
    one_exchange_ns: int  # worst error of one exchange at the start, its drift unknown
    steps: int
    window_ns: int  # between the exchanges around the step


def run(kind: str, seed: int, seconds: float) -> Trial:
    """One trial of ``kind`` that exchanges once a second for ``seconds``, between a long exchange before and after."""
    draw = random.Random(f"{kind} {seed}")
    own = TraceClock(time.monotonic_ns)
    begin_ns = time.monotonic_ns()
    own.skew(Skew(begin_ns=0, step_ns=round(draw.choice([1, -1]) * WRONG_S * 1e9)))
    own.skew(Skew(begin_ns=begin_ns, drift=draw.choice([1, -1]) * DRIFT))
    time.sleep(0.2 + draw.random())  # until it has caught up, where it was set back; trials do not exchange in step
    while own.own_ns(time.monotonic_ns()) - own.own_ns(time.monotonic_ns() - 1_000_000) < 900_000:
        time.sleep(0.05)
    with ClockServer("127.0.0.1") as server:
        if kind == DATA:
            with slow(server.port, THERE_S, BACK_S) as port:
                return _judged(kind, own, (port, server.token), seconds, draw)
        return _judged(kind, own, (server.port, server.token), seconds, draw)


def _judged(kind: str, own: TraceClock, server: tuple[int, int], seconds: float, draw: random.Random) -> Trial:
    first = exchange("127.0.0.1", *server, clock=own)[0]
    reference = ReferenceClock("127.0.0.1", *server, own)
    from_ns = time.monotonic_ns()
    reference.exchange()
    step_s = from_ns / 1e9 + draw.uniform(0.2, 0.8) * seconds
    if kind == STEPS:
        own.skew(Skew(begin_ns=round(step_s * 1e9), step_ns=round(STEP_S * 1e9)))
    for _ in range(round(seconds / EVERY_S)):
        time.sleep(EVERY_S)
        reference.exchange_few()
    found, until_ns = reference.exchange(), time.monotonic_ns()
    true_ns = np.linspace(from_ns, until_ns, MOMENTS).astype(np.int64)
    own_ns = np.array([own.own_ns(int(each)) for each in true_ns])
    errors_ns, claimed_ns = np.abs(found.align(own_ns) - true_ns), found.uncertainties_ns(own_ns)
    usual_ns = found.uncertainty_ns if found.usual_uncertainty_ns is None else found.usual_uncertainty_ns
    alone = ClockAlignment(offset_ns=first.offset_ns)
    return Trial(
        kind=kind, worst_ns=int(errors_ns[claimed_ns <= usual_ns].max()), uncertainty_ns=usual_ns,
        least_round_trip_ns=reference.least_round_trip_ns or 0, covered=bool((errors_ns <= claimed_ns).all()),
        one_exchange_ns=int(np.abs(alone.align(own_ns) - true_ns).max()), steps=len(found.steps),
        window_ns=sum(step.to_ns - step.from_ns for step in found.steps),
    )  # fmt: skip
