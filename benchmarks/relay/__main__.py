"""Measures veth, the unshaped relay and the relay at requested rates and delays, alternating, idle and with busy cores.

``python -m benchmarks.relay [--repeats N] [--seconds S] [--busy N] [--write]``. Needs root, iperf3, fping, iproute2.
"""

from __future__ import annotations

import contextlib
import statistics
import subprocess
import sys
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from typing import Any

import click

from benchmarks import written
from benchmarks.relay import bed

RATES_BPS = (1e6, 10e6, 50e6, 100e6, 500e6)
DELAYS_S = (0.0, 0.025)
JITTER_RATES_BPS, JITTER_S = (10e6, 100e6), 0.0001  # on the longer delay: every segment is then carried by itself
UNSHAPED_UDP_BPS = 1e9  # offered where nothing limits
OVERLOAD = 1.2
PING_FRAME_BYTES = 98  # fping's default
HELD_BPS, MOST_OFF, MOST_OFF_MS = 100e6, 0.05, 1.0
BAR = (
    f"idle, up to {HELD_BPS / 1e6:g} Mbit/s: TCP and UDP within {written.percent(MOST_OFF)}, round trip within "
    f"{MOST_OFF_MS:g} ms"
)


@dataclass(frozen=True, kw_only=True)
class Case:
    """One way of joining the two hosts, with or without busy loops beside it."""

    link: str  # veth or relay
    rate_bps: float | None
    delay_s: float
    busy: int
    jitter_s: float = 0.0

    def round_trip_ms(self) -> float:
        """What was requested: both delays, and the time of the ping's frame on both links."""
        serialised_s = 0.0 if self.rate_bps is None else 2 * PING_FRAME_BYTES * 8 / self.rate_bps
        return (2 * self.delay_s + serialised_s) * 1e3


def cases(busy: int) -> list[Case]:
    """In the order in which they alternate."""
    unshaped = [Case(link=link, rate_bps=None, delay_s=0.0, busy=busy) for link in ("veth", "relay")]
    shaped = [Case(link="relay", rate_bps=r, delay_s=d, busy=busy) for d in DELAYS_S for r in RATES_BPS]
    jittered = [replace(one, jitter_s=JITTER_S) for one in shaped if one.delay_s and one.rate_bps in JITTER_RATES_BPS]
    return unshaped + shaped + jittered


def measure(case: Case, seconds: int) -> dict[str, float]:
    """One measurement: tcp_bps, udp_sent_bps, udp_bps, round_trip_ms, and what the relay says of itself."""
    reports: list[Any] = []
    joined = bed.veth() if case.link == "veth" else bed.relay(case.rate_bps, case.delay_s, reports, case.jitter_s)
    with joined as hosts, _busy_loops(case.busy):
        offered_bps = UNSHAPED_UDP_BPS if case.rate_bps is None else OVERLOAD * case.rate_bps
        seen = {"round_trip_ms": bed.round_trip_ms(hosts)}
        seen["udp_sent_bps"], seen["udp_bps"] = bed.udp_bps(hosts, seconds, offered_bps)
        seen["tcp_bps"] = bed.tcp_bps(hosts, seconds)
    for report in reports:
        link = report["links"][0]
        seen["late_share"] = link["late"] / max(1, link["timed"])
        seen["lateness_mean_us"], seen["lateness_max_us"] = link["lateness_mean_s"] * 1e6, link["lateness_max_s"] * 1e6
        seen["cores"] = report["cpu_s"] / report["seconds"]
    return seen


def table(rows: list[tuple[Case, dict[str, float]]]) -> str:
    """Markdown: medians, and ratios to what was requested, or to veth where nothing was."""
    lines = [
        "| link | asked Mbit/s | requested delay ms | jitter ms | busy loops | TCP Mbit/s | ratio | UDP sent "
        "| UDP Mbit/s | ratio | round trip ms | off ms | late > 1 ms | mean late us | relay cores |",
        "|---" * 15 + "|",
    ]
    veth = {case.busy: seen for case, seen in rows if case.link == "veth"}
    for case, seen in rows:
        tcp, udp = seen["tcp_bps"] / 1e6, seen["udp_bps"] / 1e6
        asked = None if case.rate_bps is None else case.rate_bps / 1e6
        tcp_ratio = tcp / (asked or veth[case.busy]["tcp_bps"] / 1e6)
        udp_sent = seen["udp_sent_bps"] / 1e6
        udp_ratio = udp / min(udp_sent, asked or udp_sent)  # a sender short of a core is not the link's doing
        off_ms = seen["round_trip_ms"] - case.round_trip_ms()
        late = (
            f"{seen['late_share']:.2%} | {seen['lateness_mean_us']:.0f} | {seen['cores']:.2f}"
            if "cores" in seen
            else "| |"
        )
        lines.append(
            f"| {case.link} | {'-' if asked is None else f'{asked:g}'} | {case.delay_s * 1e3:g} "
            f"| {case.jitter_s * 1e3:g} | {case.busy} "
            f"| {tcp:.4g} | {tcp_ratio:.3f} | {udp_sent:.4g} | {udp:.4g} | {udp_ratio:.3f} "
            f"| {seen['round_trip_ms']:.2f} | {off_ms:+.2f} | {late} |"
        )
    return "\n".join(lines)


@click.command()
@click.option("--repeats", default=3, show_default=True)
@click.option("--seconds", default=3, show_default=True, help="Of each iperf3 run.")
@click.option("--busy", default=2, show_default=True, help="Busy loops beside a second half of the cases; 0: none.")
@written.options(repeats=1, seconds=1, busy=0)
def main(repeats: int, seconds: int, busy: int, write: bool) -> None:
    """Measure veth, the unshaped relay, and the relay at rates and delays, alternating."""
    seen: dict[Case, list[dict[str, float]]] = {case: [] for loops in sorted({0, busy}) for case in cases(loops)}
    for repeat in range(repeats):
        for case, measured in seen.items():
            click.echo(f"{repeat + 1}/{repeats} {case}", err=True)
            measured.append(measure(case, seconds))
    medians = [(case, _medians(measured)) for case, measured in seen.items()]
    text = f"Medians of {repeats} runs.\n\n{table(medians)}"
    click.echo(text)
    if write:
        raw = [{**asdict(case), "measured": measured} for case, measured in seen.items()]
        written.write(
            "relay", title="The relay, measured", text=text, values={"cases": raw}, repeats=repeats,
            missed=missed(medians),
        )  # fmt: skip
    written.conclude(BAR, missed(medians))


def missed(rows: Sequence[tuple[Case, Mapping[str, float]]]) -> list[str]:
    """What of the bar links of the relay miss on an idle machine; above 100 Mbit/s iperf3 itself lacks processors."""
    found = []
    for case, seen in rows:
        if case.busy or case.rate_bps is None or case.rate_bps > HELD_BPS:
            continue
        off = {name: seen[f"{name}_bps"] / case.rate_bps - 1 for name in ("tcp", "udp")}
        off_ms = seen["round_trip_ms"] - case.round_trip_ms()
        wrong = [f"{name} {value:+.1%}" for name, value in off.items() if abs(value) > MOST_OFF]
        wrong += [f"round trip {off_ms:+.2f} ms"] if abs(off_ms) > MOST_OFF_MS else []
        if wrong:
            found.append(f"{case.rate_bps / 1e6:g} Mbit/s, {case.delay_s * 1e3:g} ms: {', '.join(wrong)}")
    return found


def _medians(measured: list[dict[str, float]]) -> dict[str, float]:
    return {name: statistics.median(one[name] for one in measured) for name in measured[0]}


@contextlib.contextmanager
def _busy_loops(count: int) -> Iterator[None]:
    loops = [subprocess.Popen([sys.executable, "-c", "while True: pass"]) for _ in range(count)]
    try:
        yield
    finally:
        for loop in loops:
            loop.kill()
            loop.wait()


if __name__ == "__main__":
    main()
