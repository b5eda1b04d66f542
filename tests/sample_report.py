"""A made-up run, to look at the report without running anything: six workers on a ring, one slow host, one slow link.

Every worker computes, then passes ``2 (n - 1)`` messages round the ring per bucket; a message leaves when the one
before it has arrived. Figures are drawn from a seed, so the same seed gives the same page.
``python tests/sample_report.py PAGE.html`` writes one.
"""

from __future__ import annotations

import random
import sys
from pathlib import Path
from typing import Any

import numpy as np

from e2c_dl.archive.records import Progress
from e2c_dl.archive.run import Outcome, Run, StepRecord
from e2c_dl.diagnosis.diagnose import Diagnosis
from e2c_dl.diagnosis.model import Element, ElementKind, Finding, HostSummary, LinkSummary, Part, Report, SpeedUp
from e2c_dl.diagnosis.shown.activity import DELIVERY, ITERATION, PIECE, Activity, Lane
from e2c_dl.diagnosis.shown.heat import Heat
from e2c_dl.diagnosis.shown.panels import Changed, Mark, Panel
from e2c_dl.diagnosis.states import STATES, partition
from e2c_dl.diagnosis.stretches import throughout
from e2c_dl.emulation.measuring.fidelity import LinkFidelity
from e2c_dl.emulation.measuring.measured import Measured
from e2c_dl.report.page.html import Source, build
from e2c_dl.topology import Link
from e2c_dl.trace.model import Phase, State

HOSTS = ("edge-1", "edge-2", "fog-1", "fog-2", "cloud-1", "cloud-2")
RATES_BPS = (40e6, 40e6, 60e6, 60e6, 80e6, 40e6)  # of the link from each host to the next
DELAYS_S = (0.002, 0.005, 0.001, 0.010, 0.001, 0.015)
SLOW_HOST, SLOW_LINK = "fog-2", ("cloud-1", "cloud-2")
BUCKETS, BUCKET_BYTES = 3, 160_000


def activity(iterations: int = 60, seed: int = 1) -> Activity:
    """The sample's timeline: departures included."""
    noise = random.Random(seed)
    now = [0.0] * len(HOSTS)
    lanes: list[dict[str, Any]] = [{"pieces": [], "iterations": []} for _ in HOSTS]
    deliveries: list[tuple[Any, ...]] = []
    for iteration in range(iterations):
        begun = max(now)
        for rank, host in enumerate(HOSTS):
            factor = 3.0 if host == SLOW_HOST else 1.5 if host.startswith("edge") else 1.0
            pieces, now[rank] = _computed(begun, iteration, 0.08 * factor * noise.uniform(0.95, 1.1))
            lanes[rank]["pieces"] += pieces
        deliveries += _ring(iteration, now, noise)
        for lane in lanes:
            lane["iterations"].append((iteration, begun, max(now)))
    moved = np.sort(np.array(deliveries, dtype=DELIVERY), order="start_s")
    return Activity(lanes=tuple(_lane(rank, lane, moved) for rank, lane in enumerate(lanes)), deliveries=moved)


def heat(shown: Activity, seed: int = 1) -> Heat:
    """One that fits ``shown``: the slow host and the slow link stand out."""
    iterations = shown.lanes[0].iterations
    elements = [Element(kind=ElementKind.HOST, src=host) for host in HOSTS]
    elements += [
        Element(kind=ElementKind.LINK, src=src, dst=dst) for src, dst in zip(HOSTS, _after(HOSTS), strict=True)
    ]
    slow = [3.0 if each.src == SLOW_HOST and not each.dst else 5.0 if (each.src, each.dst) == SLOW_LINK else 1.0
            for each in elements]  # fmt: skip
    noise = np.random.default_rng(seed).uniform(0.95, 1.15, (len(elements), len(iterations)))
    return Heat(
        elements=tuple(elements), slowdown=np.array(slow)[:, None] * noise, by_design=(True,) * len(elements),
        start_s=iterations["start_s"], end_s=iterations["end_s"],
    )  # fmt: skip


def report(shown: Activity, healthy: bool = False) -> Report:
    """A Report that fits ``shown``; ``healthy`` leaves the findings out."""
    run_s = shown.end_s
    findings = () if healthy else (_link_finding(run_s), _host_finding(run_s))
    summaries = []
    for lane in shown.lanes:
        lengths = np.diff(lane.bounds_s)
        states_s = {state: float(lengths[lane.codes == code].sum()) for code, state in enumerate(STATES)}
        summaries.append(
            HostSummary(
                host=lane.host, rank=lane.rank, layer=lane.layer, states_s=states_s, wall_s=sum(states_s.values()),
                compute_per_iteration_s=states_s[State.COMPUTE] / len(lane.iterations),
                complete=True,
            )
        )  # fmt: skip
    iterations = shown.lanes[0].iterations
    return Report(
        iterations=len(iterations),
        run_s=run_s,
        iteration_s=float(np.median(iterations["end_s"] - iterations["start_s"])),
        unexplained=0.021,
        half_error=0.013,
        hosts=tuple(summaries),
        links=tuple(_link(shown, pair) for pair in zip(HOSTS, _after(HOSTS), strict=True)),
        bottlenecks=_bottlenecks(run_s),
        findings=findings,
        culprits=findings,
        together_s=0.0 if healthy else 1.1 * sum(each.saved_s for each in findings),
        clock_uncertainty_s=41e-6,
        limitations=("Two hosts of a class cannot outvote each other: compute is judged by the calibrated profile.",),
    )


def run(healthy: bool = False) -> Run:
    """Facts that a campaign would have recorded."""
    injected = {"seed": 1, "compute": {SLOW_HOST: 3.0}, "links": {" -> ".join(SLOW_LINK): 0.2}}
    return Run(
        run_id="5a3b1e07",
        outcome=Outcome.FINISHED,
        scenario="first-light",
        testbed="local",
        command=("e2c-dl", "deploy", "experiments/first-light", "artifacts", "--on", "local"),
        started="2025-01-31T10:00:00+00:00",
        ended="2025-01-31T10:02:11+00:00",
        versions={"e2c_dl": "0.1.0", "python": "3.11.2", "torch": "2.13.0", "e2clab": "3.7"},
        seeds={"training": 1, "injected": 1},
        emulation={"backend": "relay", "compute": {"method": "sleep"}},
        steps=(
            StepRecord(step="deploy", seconds=21.0, outcome="done"),
            StepRecord(step="train", seconds=58.2, outcome="done"),
        ),
        injected={} if healthy else injected,
    )


def links() -> tuple[dict[str, Any], ...]:
    """Rows as in links.json."""
    rows = []
    for src, dst, rate, delay in zip(HOSTS, _after(HOSTS), RATES_BPS, DELAYS_S, strict=True):
        for a, b, requested_bps in ((src, dst, rate * (0.2 if (src, dst) == SLOW_LINK else 1.0)), (dst, src, rate)):
            designed = Link(rate_bps=rate, delay_s=delay)
            probed = Measured(
                rate_bps=requested_bps * 0.985,
                rate_is_floor=False,
                round_trip_s=2 * delay + 0.0003,
                round_trip_spread_s=0.0001,
                pings=101,
                loss=0.0,
                loss_samples=10_000,
                thorough=True,
                rate_interval_bps=(requested_bps * 0.983, requested_bps * 0.986),
                goodput_bps=requested_bps * 0.942,
                goodput_interval_bps=(requested_bps * 0.94, requested_bps * 0.945),
                round_trip_interval_s=(2 * delay + 0.0002, 2 * delay + 0.0004),
                loss_interval=(0.0, 0.0004),
                delay_spread_s=0.00005,
                delay_spread_interval_s=(0.00004, 0.00006),
                reordered=0.0,
            )
            requested = Link(rate_bps=requested_bps, delay_s=delay)
            link = LinkFidelity(
                src=a, dst=b, designed=designed, requested=requested, requested_round_trip_s=2 * delay, measured=probed
            )
            rows.append(link.to_json())
    return tuple(rows)


def progress(iterations: int = 60) -> tuple[Progress, ...]:
    """Rows as in progress.jsonl of rank 0."""
    loss = [2.3 * 0.94**i + 0.08 for i in range(iterations)]
    accuracy = [0.97 - 0.85 * 0.9**i if i % 10 == 9 else None for i in range(iterations)]
    return tuple(
        Progress(iteration=i + 1, iterations=iterations, loss=loss[i], accuracy=accuracy[i], elapsed_s=0.9 * i)
        for i in range(iterations)
    )


def changed(end_s: float = 50.0, seed: int = 1) -> Changed:
    """A link whose rate halves and which is cut, a host that slows down and is killed, and one that heats up."""
    noise = random.Random(seed)
    middle_s = end_s / 2
    moments = [end_s * (number + 0.5) / 200 for number in range(200)]
    cut = (0.3 * end_s, 0.36 * end_s)
    rates = [
        (at, (40.0 if at < middle_s else 20.0) * noise.uniform(0.9, 1)) for at in moments if not cut[0] < at < cut[1]
    ]
    factors = [(at, (1.0 if at < middle_s else 3.0) * noise.uniform(1, 1.05)) for at in moments]
    warm = [(at, 25 + 45 * min(1.0, at / middle_s)) for at in moments]
    panels = (
        Panel(
            title="edge-1 -> edge-2: rate", unit="Mbit/s", requested=[(0.0, 40.0), (middle_s, 20.0)], measured=rates,
            bands=[cut],
        ),
        Panel(
            title="fog-1: time of a gradient", unit="× at factor 1", requested=[(0.0, 1.0), (middle_s, 3.0)],
            measured=factors, marks=[Mark(at_s=0.98 * end_s, word="killed")],
        ),
        Panel(
            title="cloud-1: temperature", unit="°C", measured=warm, joined=True,
            marks=[Mark(at_s=middle_s, word="throttled", value=70.0)],
        ),
    )  # fmt: skip
    said = (
        f"link edge-1 -> edge-2: changed once (rate 20.0 Mbit/s), requested at {middle_s:g} s, in force 1.20 ms later"
    )
    return Changed(panels=panels, sentences=(said,), end_s=end_s)


def source(healthy: bool = False) -> Source:
    """Everything that a page is built from."""
    shown = activity()
    return Source(
        run=run(healthy), links=links(), progress=progress(),
        diagnosis=Diagnosis(
            report=report(shown, healthy), activity=shown, heat=heat(shown), changed=changed(shown.end_s)
        ),
    )  # fmt: skip


def _after(hosts: tuple[str, ...]) -> tuple[str, ...]:
    return (*hosts[1:], hosts[0])


def _computed(begun: float, iteration: int, total: float) -> tuple[list[tuple[Any, ...]], float]:
    """Rows of PIECE: forward takes a third of ``total`` seconds, the buckets' backward the rest."""
    moments = [begun, *(begun + total / 3 + total * 2 / 3 * b / BUCKETS for b in range(BUCKETS + 1))]
    phases = [Phase.FORWARD] + [Phase.BACKWARD] * BUCKETS
    pieces = [(phase, iteration, index - 1, moments[index], moments[index + 1]) for index, phase in enumerate(phases)]
    return pieces, moments[-1]


def _ring(iteration: int, now: list[float], noise: random.Random) -> list[tuple[Any, ...]]:
    """The messages of one all-reduce, rows of DELIVERY; ``now``, the ranks' clocks, is moved on."""
    made: list[tuple[Any, ...]] = []
    for step in range(2 * (len(HOSTS) - 1) * BUCKETS):
        arrivals = list(now)
        for rank, (src, dst) in enumerate(zip(HOSTS, _after(HOSTS), strict=True)):
            rate = RATES_BPS[rank] * (0.2 if (src, dst) == SLOW_LINK else 1.0)
            nbytes = BUCKET_BYTES // len(HOSTS)
            end = now[rank] + DELAYS_S[rank] + nbytes * 8 / rate * noise.uniform(1.0, 1.05)
            target = (rank + 1) % len(HOSTS)
            made.append((rank, target, iteration, step % BUCKETS, nbytes, now[rank], end))
            arrivals[target] = max(arrivals[target], end)
        now[:] = arrivals
    return made


def _lane(rank: int, lane: dict[str, Any], deliveries: Any) -> Lane:
    host = HOSTS[rank]
    own = deliveries[(deliveries["src"] == rank) | (deliveries["dst"] == rank)]
    pieces, iterations = np.array(lane["pieces"], dtype=PIECE), np.array(lane["iterations"], dtype=ITERATION)
    times = [np.stack([rows["start_s"], rows["end_s"]], axis=1) for rows in (pieces, own)]
    sets = [np.rint(each * 1e9).astype(np.int64) for each in times]
    end_ns = round(float(iterations["end_s"][-1]) * 1e9)
    bounds_ns, codes = partition(0, end_ns, [*sets, np.array([[0, end_ns]], dtype=np.int64)])
    return Lane(
        host=host, rank=rank, layer=host.split("-")[0], bounds_s=bounds_ns / 1e9, codes=codes,
        pieces=pieces, iterations=iterations,
    )  # fmt: skip


def _link(shown: Activity, pair: tuple[str, str]) -> LinkSummary:
    own = shown.by_link[pair]
    took_s = own["end_s"] - own["start_s"]
    delay = DELAYS_S[HOSTS.index(pair[0])]
    total = int(own["nbytes"].sum())
    return LinkSummary(
        src=pair[0], dst=pair[1], messages=len(own), sent_bytes=total, received_bytes=total,
        rate_bps=float(np.median(own["nbytes"] * 8 / (took_s - delay))),
        transfer_s=float(np.median(took_s)),
    )  # fmt: skip


def _link_finding(run_s: float) -> Finding:
    return Finding(
        element=Element(kind=ElementKind.LINK, src=SLOW_LINK[0], dst=SLOW_LINK[1]),
        part=Part.RATE, when=throughout(run_s), slowdown=5.0, observed=15.8e6, expected=80e6,
        saved_s=run_s * 0.4, speedup=1 / 0.6, material=True,
        evidence="Link cloud-1 -> cloud-2 carried its messages at 15.8 Mbit/s of 80 designed, in 59 of 60 iterations.",
    )  # fmt: skip


def _host_finding(run_s: float) -> Finding:
    return Finding(
        element=Element(kind=ElementKind.HOST, src=SLOW_HOST),
        part=Part.COMPUTE, when=throughout(run_s), slowdown=3.0, observed=0.246, expected=0.082,
        saved_s=run_s * 0.12, speedup=1 / 0.88, material=True,
        evidence="Host fog-2 took 246 ms to compute an iteration where its peers took 82 ms, in each of 60 iterations.",
    )  # fmt: skip


def _bottlenecks(run_s: float) -> tuple[SpeedUp, ...]:
    shares = [(ElementKind.LINK, "cloud-1", "cloud-2", 0.31), (ElementKind.HOST, "fog-2", None, 0.09)]
    shares += [(ElementKind.LINK, "edge-1", "edge-2", 0.02), (ElementKind.HOST, "edge-1", None, 0.0)]
    return tuple(
        SpeedUp(element=Element(kind=kind, src=src, dst=dst), saved_s=run_s * share, speedup=1 / (1 - share))
        for kind, src, dst, share in shares
    )


if __name__ == "__main__":
    Path(sys.argv[1]).write_text(build(source()), encoding="utf-8")
