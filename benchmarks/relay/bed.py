"""Two throwaway network namespaces, joined by veth or by the relay, and what iperf3 and fping say of them."""

from __future__ import annotations

import contextlib
import json
import os
import re
import statistics
import subprocess
import tempfile
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from e2c_dl.emulation.relay.config import RelayConfig, RelayHost
from e2c_dl.emulation.relay.process import RelayProcess
from e2c_dl.topology import Link

ADDRESSES = ("198.19.0.1", "198.19.0.2")
PORT = "5201"
TCP_FRAMES, UDP_FRAMES = 1514 / 1448, 1514 / 1472  # bytes of a frame per byte that iperf3 counts (TCP with timestamps)


class Host:
    """A network namespace that lives as long as its process, which ends when this one does."""

    def __init__(self) -> None:
        script = "ip link set lo up && echo up && exec cat"
        self._process = subprocess.Popen(
            ["unshare", "--net", "sh", "-c", script], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
        )
        if self._process.stdout is None or self._process.stdout.readline() != "up\n":
            raise RuntimeError("cannot make a network namespace; run as root")
        self.pid = self._process.pid

    def argv(self, *argv: str) -> list[str]:
        return ["nsenter", "--target", str(self.pid), "--net", *argv]

    def run(self, *argv: str) -> subprocess.CompletedProcess[str]:
        """Raises: RuntimeError with what the command says when it fails."""
        done = subprocess.run(self.argv(*argv), capture_output=True, text=True, check=False)
        if done.returncode:
            raise RuntimeError(f"{' '.join(argv)}: {done.stderr or done.stdout}")
        return done

    def close(self) -> None:
        self._process.kill()
        self._process.communicate()


@contextlib.contextmanager
def veth() -> Iterator[tuple[Host, Host]]:
    """Two hosts with a veth pair between them: what the machine can do at best."""
    with _hosts() as hosts:
        hosts[0].run("ip", "link", "add", "eth1", "type", "veth", "peer", "name", "eth1", "netns", str(hosts[1].pid))
        for host, address in zip(hosts, ADDRESSES, strict=True):
            host.run("ip", "address", "add", f"{address}/16", "dev", "eth1")
            host.run("ip", "link", "set", "eth1", "up")
        yield hosts


@contextlib.contextmanager
def relay(
    rate_bps: float | None, delay_s: float, reports: list[object], jitter_s: float = 0.0
) -> Iterator[tuple[Host, Host]]:
    """Two hosts with the relay between them, the same both ways; its report is appended to ``reports``."""
    with _hosts() as hosts, tempfile.TemporaryDirectory() as folder:
        config = RelayConfig(
            hosts=tuple(
                RelayHost(name=n, netns_pid=h.pid, device="eth1", address=f"{a}/16", mac=f"02:00:00:00:00:0{i}")
                for i, (n, h, a) in enumerate(zip("ab", hosts, ADDRESSES, strict=True))
            ),
            links={
                (src, dst): Link(rate_bps=rate_bps, delay_s=delay_s, jitter_s=jitter_s) for src, dst in ("ab", "ba")
            },
            seed=0,
            report_path=str(Path(folder) / "report.json"),
        )
        process = RelayProcess.start(config, os.environ, Path(folder) / "stderr")
        try:
            yield hosts
            reports.append(process.stop())
        finally:
            process.kill()


def round_trip_ms(hosts: tuple[Host, Host]) -> float:
    """Median of 21 echoes on the idle link, after one that makes the hosts find each other."""
    hosts[0].run("fping", "-q", "-c", "1", "-t", "5000", ADDRESSES[1])
    said = hosts[0].run("fping", "-q", "-C", "21", "-p", "20", "-t", "5000", ADDRESSES[1]).stderr
    return statistics.median(float(field) for field in re.findall(r"\d+\.\d+", said.partition(" : ")[2]))


def tcp_bps(hosts: tuple[Host, Host], seconds: int) -> float:
    """Bits per second of frames that arrived, after one second in which TCP finds its pace."""
    said = _iperf3(hosts, "--time", str(seconds), "--omit", "1")
    return float(said["end"]["sum_received"]["bits_per_second"]) * TCP_FRAMES


def udp_bps(hosts: tuple[Host, Host], seconds: int, offered_bps: float) -> tuple[float, float]:
    """Bits per second of full frames (that were sent, that arrived) of ``offered_bps``, which iperf3 may not reach."""
    payload_bps = str(round(offered_bps / UDP_FRAMES))
    options = ("--udp", "--length", "1472", "--bitrate", payload_bps, "--get-server-output")
    said = _iperf3(hosts, "--time", str(seconds), *options)
    seen = [interval["sum"]["bits_per_second"] for interval in said["server_output_json"]["intervals"]]
    sent_bps = float(said["end"]["sum"]["bits_per_second"])
    # The first quarter is left out for bursts, the last interval because it is cut off.
    return sent_bps * UDP_FRAMES, float(statistics.mean(seen[len(seen) // 4 : -1])) * UDP_FRAMES


def _iperf3(hosts: tuple[Host, Host], *options: str) -> dict[str, Any]:
    """Host 0 sends to host 1."""
    server = subprocess.Popen(
        hosts[1].argv("iperf3", "--server", "--one-off", "--json", "--interval", "0.1", "--port", PORT),
        stdout=subprocess.DEVNULL,
    )
    try:
        _await_listening(hosts[1])
        said = hosts[0].run("iperf3", "--client", ADDRESSES[1], "--port", PORT, "--json", *options).stdout
        return json.loads(said)  # type: ignore[no-any-return]
    finally:
        server.kill()
        server.wait()


def _await_listening(host: Host) -> None:
    while f":{PORT}" not in host.run("ss", "--listening", "--tcp", "--numeric").stdout:
        pass


@contextlib.contextmanager
def _hosts() -> Iterator[tuple[Host, Host]]:
    with contextlib.ExitStack() as stack:
        made = []
        for _ in range(2):
            made.append(Host())
            stack.callback(made[-1].close)
        yield made[0], made[1]
