"""What runs in User-Mode Linux for the tests: shapes, sends, counts; prints what came out as JSON, judges nothing."""

from __future__ import annotations

import dataclasses
import itertools
import json
import selectors
import socket
import statistics
import subprocess
import sys
import time
from collections.abc import Callable
from typing import Any

from benchmarks.uml import hosts
from benchmarks.uml.packets import IN_A_ROW, Flow, Seen, rate_bps
from e2c_dl.emulation import tc
from e2c_dl.emulation.tc import on_host
from e2c_dl.topology import Bottleneck, BurstLoss, Distribution, Link, Pair, Topology

HOSTS = hosts.names(3)
PAIR = ("h1", "h2")
LONG, LONG_TRAIN = Link(rate_bps=200e6, delay_s=2.5), (2000, 0.0, 100)  # all of it under way at once
LINKS: dict[str, tuple[Link, int, float, int]] = {  # link, datagrams, gap, payload
    "rate": (Link(rate_bps=8e6), 300, 0.0, 1472),
    "delay": (Link(delay_s=0.02), 100, 0.002, 100),
    "rate and delay": (Link(rate_bps=8e6, delay_s=0.03), 300, 0.0, 1472),
    "uniform": (Link(delay_s=0.02, jitter_s=0.004), 500, 0.001, 100),
    "normal": (Link(delay_s=0.02, jitter_s=0.004, distribution=Distribution.NORMAL), 500, 0.001, 100),
    "pareto": (Link(delay_s=0.02, jitter_s=0.004, distribution=Distribution.PARETO), 500, 0.001, 100),
    "loss": (Link(loss=0.02), 10000, 0.0, 100),
    "burst": (Link(burst=BurstLoss(good_to_bad=0.01, bad_to_good=0.25)), 10000, 0.0, 100),
    "reorder": (Link(delay_s=0.02, reorder=0.05), 2000, 0.0003, 100),
    "queue": (Link(rate_bps=8e6, delay_s=0.03, queue_bytes=50 * 1514), 300, 0.0, 1472),
    "long": (LONG, *LONG_TRAIN),
    "down": (Link(rate_bps=8e6, down=True), 50, 0.0, 1472),
}


def summary(seen: Seen) -> dict[str, Any]:
    delays_s = seen.delays_s
    said: dict[str, Any] = {"loss": seen.loss, "overtakers": seen.overtakers / len(seen.sent_s)}
    if len(delays_s) > IN_A_ROW:
        said |= {
            "rate_bps": seen.rate_bps,
            "least_s": min(delays_s),
            "median_s": statistics.median(delays_s),
            "quartiles_s": statistics.quantiles(delays_s),
        }
    runs = seen.loss_runs
    return said | {"mean_run": statistics.mean(runs) if runs else 0.0}


def links() -> dict[str, Any]:
    """Every kind of link, one after the other, set up anew each time; the other direction asks for something else."""
    said: dict[str, Any] = {}
    for name, (link, count, gap_s, payload_bytes) in LINKS.items():
        asked = hosts.topology(HOSTS[:2], {PAIR: link, ("h2", "h1"): Link(rate_bps=2e6)})
        hosts.shape(asked)
        with Flow(*PAIR, HOSTS) as flow:
            flow.send_many(count, gap_s, payload_bytes)
            said[name] = summary(flow.seen(LONG.delay_s + 0.5 if link == LONG else 0.3))
    with Flow("h2", "h1", HOSTS) as flow:  # not what h1 -> h2 has
        flow.send_many(80)
        said["back"] = summary(flow.seen())
    return said


def neighbours() -> dict[str, Any]:
    """Whether a neighbour is found over a link that loses everything, and what an address without a link sees."""
    hosts.shape(hosts.topology(HOSTS[:2], {PAIR: Link(loss=1.0, delay_s=0.01)}))
    with hosts.entered("h1"):
        subprocess.run(["ip", "neigh", "flush", "dev", hosts.DEVICE], check=True, capture_output=True)
    with Flow(*PAIR, HOSTS) as lost, Flow("h1", "h3", HOSTS) as free:
        lost.send()
        free.send_many(20)
        said = {"lost": lost.seen().loss, "unmatched": summary(free.seen())}
    with hosts.entered("h1"):
        shown = subprocess.run(["ip", "-json", "neigh"], check=True, capture_output=True, text=True).stdout
    said["found"] = any(entry["dst"] == "198.19.0.2" and "lladdr" in entry for entry in json.loads(shown))
    return said


def bottlenecks() -> dict[str, Any]:
    """Two flows through one rate: leaving one host, and reaching one host; then at another rate, in place."""
    leaving, arriving = (("h1", "h2"), ("h1", "h3")), (("h1", "h3"), ("h2", "h3"))
    own = {("h1", "h2"): Link(rate_bps=4e6), ("h1", "h3"): Link(delay_s=0.005)}
    said = {}
    for name, pairs in (("leaving", leaving), ("arriving", arriving)):
        shared = Bottleneck(name="shared", rate_bps=6e6, links=pairs)
        asked = hosts.topology(HOSTS, own if name == "leaving" else {}, (shared,))
        hosts.shape(asked)
        said[name] = together(pairs)
        host = pairs[0][0] if name == "leaving" else pairs[0][1]
        change(asked, host, {}, {"shared": 3e6})
        said[f"{name} changed"] = together(pairs)
        hosts.unshape(asked)
    hosts.shape(hosts.topology(HOSTS, own, (Bottleneck(name="shared", rate_bps=6e6, links=leaving),)))
    with Flow(*leaving[0], HOSTS) as flow:
        flow.send_many(150)
        said["alone"] = summary(flow.seen())
    return said


def together(pairs: tuple[Pair, ...]) -> dict[str, Any]:
    """The rate of all flows in sum while all of them send, and how much of it the first has."""
    flows = [Flow(*pair, HOSTS) for pair in pairs]
    for _ in range(150):
        for flow in flows:
            flow.send()
    seen = [flow.seen() for flow in flows]
    for flow in flows:
        flow.__exit__()
    end_s = min(each.arrived[-1][1] for each in seen)
    times = sorted((when, index) for index, each in enumerate(seen) for _, when in each.arrived if when <= end_s)
    return {
        "rate_bps": rate_bps([when for when, _ in times], 1514),
        "share": sum(index == 0 for _, index in times) / len(times),
    }


def change(
    asked: Topology, host: str, altered: dict[Pair, Link], rates_bps: dict[str, float] | None = None
) -> tuple[float, float]:
    """When the change was begun, and when it was in force, in Unix seconds; checked afterwards."""
    with hosts.entered(host):
        commands = tc.changes(asked, host, hosts.DEVICE, hosts.addresses(HOSTS), altered, rates_bps or {})
        begun_s = time.time()
        on_host.run(commands)
        done_s = time.time()
        on_host.check(hosts.DEVICE, commands)
    return begun_s, done_s


def changed_under_load() -> dict[str, Any]:
    """A full queue whose rate falls to a quarter: nothing of it is lost, and it leaves at the new rate from then on.

    It holds more than a second's frames, so that some are left whenever a slow machine comes to change it.
    """
    fast = Link(rate_bps=8e6, delay_s=0.005, queue_bytes=900 * 1514)
    asked = hosts.topology(HOSTS[:2], {PAIR: fast})
    hosts.shape(asked)
    with Flow(*PAIR, HOSTS) as flow:
        flow.send_many(800)
        begun_s, done_s = change(asked, "h1", {PAIR: dataclasses.replace(fast, rate_bps=2e6)})
        seen = flow.seen()
    times = [when for _, when in seen.arrived]
    gaps = [(later, later - sooner) for sooner, later in itertools.pairwise(times)]
    slow = [
        when for (when, _), around in zip(gaps, windows([gap for _, gap in gaps], 9), strict=False) if around > 3e-3
    ]
    after = [when for when in times if when > done_s + 0.1]
    return {
        "loss": seen.loss,
        "command_s": done_s - begun_s,
        "in_force_s": slow[0] - begun_s,
        "before": sum(when < begun_s for when in times),
        "rate_bps": rate_bps(after, 1514),
    }


def windows(values: list[float], size: int) -> list[float]:
    """The median of each value and those behind it."""
    return [statistics.median(values[index : index + size]) for index in range(len(values) - size + 1)]


def table_of_delays() -> dict[str, Any]:
    """What netem itself does when jitter with a table becomes jitter without: does the table stay?"""
    link = Link(delay_s=0.03, jitter_s=0.004, distribution=Distribution.NORMAL)
    asked = hosts.topology(HOSTS[:2], {PAIR: link})
    hosts.shape(asked)
    plain = dataclasses.replace(link, distribution=Distribution.UNIFORM)
    [command] = [
        command
        for command in tc.changes(
            hosts.topology(HOSTS[:2], {PAIR: plain}), "h1", hosts.DEVICE, hosts.addresses(HOSTS), {PAIR: plain}, {}
        )
        if "netem" in command
    ]
    with hosts.entered("h1"):
        on_host.put_in_force(hosts.DEVICE, [command])
    with Flow(*PAIR, HOSTS) as flow:
        flow.send_many(500, 0.001, 100)
        delays_s = flow.seen().delays_s
    return {"furthest_s": 0.03 - min(delays_s)}


def transfer() -> dict[str, Any]:
    """A TCP connection while its link gets slower and longer, is cut, and comes back."""
    fast, slow = Link(rate_bps=16e6, delay_s=0.005), Link(rate_bps=4e6, delay_s=0.01)
    asked = hosts.topology(HOSTS[:2], {PAIR: fast})
    hosts.shape(asked)
    with hosts.entered("h2"):
        listening = socket.create_server(("198.19.0.2", 0))
    with hosts.entered("h1"):
        sender = socket.socket()
    sender.setsockopt(socket.SOL_SOCKET, socket.SO_SNDBUF, 100_000)  # less than the queue holds: nothing overflows
    sender.connect(listening.getsockname())
    receiver, _ = listening.accept()
    for each in (sender, receiver):
        each.setblocking(False)
    with selectors.DefaultSelector() as ready:
        ready.register(sender, selectors.EVENT_WRITE)
        ready.register(receiver, selectors.EVENT_READ)
        pump(sender, receiver, ready, 0.7)
        said: dict[str, Any] = {"fast_bps": goodput_bps(pump(sender, receiver, ready, 1.0))}
        change(asked, "h1", {PAIR: slow})
        pump(sender, receiver, ready, 0.2)
        said["slow_bps"] = goodput_bps(pump(sender, receiver, ready, 1.0))
        said["retransmitted"] = retransmitted(sender)
        with hosts.entered("h1"):
            said["drops"] = on_host.read_back(hosts.DEVICE)["destinations"][0]["drops"]
        change(asked, "h1", {PAIR: dataclasses.replace(slow, down=True)})
        pump(sender, receiver, ready, 0.5)
        said["cut_bytes"] = sum(count for _, count in pump(sender, receiver, ready, 0.3))
        change(asked, "h1", {PAIR: fast})
        pump(sender, receiver, ready, 1.5)
        said["again_bps"] = goodput_bps(pump(sender, receiver, ready, 1.0))
    for each in (sender, receiver, listening):
        each.close()
    return said


def pump(
    sender: socket.socket, receiver: socket.socket, ready: selectors.BaseSelector, seconds: float
) -> list[tuple[float, int]]:
    """(when, bytes) of all that was received within ``seconds``, while as much as fits is sent."""
    received, block = [], bytes(16384)
    end_s = time.monotonic() + seconds
    while (now_s := time.monotonic()) < end_s:
        for key, _ in ready.select(end_s - now_s):
            if key.fileobj is sender:
                sender.send(block)
            else:
                received.append((time.monotonic(), len(receiver.recv(65536))))
    return received


def goodput_bps(received: list[tuple[float, int]]) -> float:
    return sum(count for _, count in received[1:]) * 8 / (received[-1][0] - received[0][0])


def retransmitted(connection: socket.socket) -> int:
    """``tcpi_total_retrans``."""
    return int.from_bytes(connection.getsockopt(socket.IPPROTO_TCP, socket.TCP_INFO, 104)[100:104], sys.byteorder)


def enoslib(lines: dict[str, str]) -> dict[str, Any]:
    """What lines of commands, run one after the other on h1, make of its links."""
    said = {}
    for name, line in lines.items():
        with hosts.entered("h1"):
            subprocess.run(["sh", "-c", line], check=True, capture_output=True)
        with Flow(*PAIR, HOSTS) as flow, Flow("h1", "h3", HOSTS) as other:
            if name == "long":
                flow.send_many(*LONG_TRAIN)
            else:
                flow.send_many(250)
            other.send_many(40)
            said[name] = {"h2": summary(flow.seen(LONG.delay_s + 0.5)), "h3": summary(other.seen())}
    return said


def main() -> None:
    request = json.load(sys.stdin)
    hosts.bring_up(len(HOSTS))
    parts: dict[str, Callable[[], dict[str, Any]]] = {
        each.__name__: each for each in (links, neighbours, bottlenecks, changed_under_load, table_of_delays, transfer)
    }
    said: dict[str, Any] = {}
    for name in request["parts"]:
        begin_s = time.monotonic()
        said[name] = enoslib(request["enoslib"]) if name == "enoslib" else parts[name]()
        said[name]["took_s"] = time.monotonic() - begin_s
    print(json.dumps(said))


if __name__ == "__main__":
    main()
