"""The sides of the comparison, each as bytes of payload per second: live world, iperf3, gloo."""

from __future__ import annotations

import json
import subprocess
import sys
import tempfile
import time
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from benchmarks.relay import bed

PORTS = (5301, 5302)
LOOPBACK = ("127.0.0.1", "127.0.0.2")
TCP_RMEM, TCP_WMEM = "4096 131072 16777216", "4096 16384 16777216"
_LIMIT_S = 120.0


def prepare(hosts: tuple[bed.Host, bed.Host]) -> None:
    """Buffers of twice the largest bandwidth-delay product, on both hosts, for whoever sends."""
    for host in hosts:
        host.run("sysctl", "-q", "-w", f"net.ipv4.tcp_rmem={TCP_RMEM}", f"net.ipv4.tcp_wmem={TCP_WMEM}")


def live(hosts: Sequence[bed.Host] | None, *, size_bytes: int, repeats: int, congestion_control: str | None) -> float:
    """The live world between two hosts, or on loopback (None), after a fifth of ``repeats`` messages."""
    return _rate(arrivals_s(hosts, size_bytes, repeats, congestion_control), size_bytes)


def arrivals_s(
    hosts: Sequence[bed.Host] | None, size_bytes: int, repeats: int, congestion_control: str | None
) -> list[float]:
    """When each message of the live world was there whole, in seconds since the first was requested."""
    addresses = bed.ADDRESSES if hosts else LOOPBACK
    asked = {"transport": "live", "addresses": addresses, "ports": PORTS, "congestion_control": congestion_control}
    return _between(hosts, asked, size_bytes, repeats)


def gloo(*, size_bytes: int, repeats: int) -> float:
    """torch's gloo on loopback, measured in the same way."""
    with tempfile.TemporaryDirectory() as folder:
        asked = {"transport": "gloo", "store": str(Path(folder) / "store")}
        return _rate(_between(None, asked, size_bytes, repeats), size_bytes)


def iperf3(hosts: tuple[bed.Host, bed.Host], *, seconds: int, congestion_control: str) -> float:
    """One stream of iperf3 with the same congestion control and the kernel's own buffers, after one second."""
    server = subprocess.Popen(
        hosts[1].argv("iperf3", "--server", "--one-off", "--port", bed.PORT), stdout=subprocess.DEVNULL
    )
    try:
        while f":{bed.PORT}" not in hosts[1].run("ss", "--listening", "--tcp", "--numeric").stdout:
            time.sleep(0.01)
        options = ("--time", str(seconds), "--omit", "1", "--congestion", congestion_control, "--json")
        said = hosts[0].run("iperf3", "--client", bed.ADDRESSES[1], "--port", bed.PORT, *options).stdout
        return float(json.loads(said)["end"]["sum_received"]["bits_per_second"]) / 8
    finally:
        server.kill()
        server.wait()


def _between(hosts: Sequence[bed.Host] | None, asked: dict[str, Any], size_bytes: int, repeats: int) -> list[float]:
    """Rank 1's times."""
    processes = []
    for rank in range(2):
        told = json.dumps({**asked, "rank": rank, "size_bytes": size_bytes, "repeats": repeats})
        argv = [sys.executable, "-m", "benchmarks.transport.peer", told]
        argv = hosts[rank].argv(*argv) if hosts else argv
        processes.append(subprocess.Popen(argv, stdout=subprocess.PIPE, text=True))
    try:
        said = [process.communicate(timeout=_LIMIT_S)[0] for process in processes]
    finally:
        for process in processes:
            process.kill()
            process.wait()
    times_s: list[float] = json.loads(said[1])
    return times_s


def _rate(times_s: list[float], size_bytes: int) -> float:
    """Bytes per second, but for the first fifth, in which TCP finds its pace."""
    skipped = max(1, len(times_s) // 5)
    return size_bytes * (len(times_s) - skipped) / (times_s[-1] - times_s[skipped - 1])
