"""Network namespaces that a relay connects, each with a device eth1 and the address 198.19.0.N."""

from __future__ import annotations

import contextlib
import os
import subprocess
import sys
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from types import MappingProxyType

from e2c_dl.emulation.relay.config import RelayConfig, RelayHost
from e2c_dl.emulation.relay.process import RelayProcess
from e2c_dl.topology import Link, Pair

FORTH, BACK = ("h1", "h2"), ("h2", "h1")
ROOT = Path(__file__).parents[1]
CLEAN = {"PATH": os.environ["PATH"], "PYTHONPATH": str(ROOT)}


class Namespace:
    """A network namespace that lives as long as its process: ``cat``, which ends when this test does."""

    def __init__(self) -> None:
        script = "ip link set lo up && echo up && exec cat"
        self._process = subprocess.Popen(
            ["unshare", "--net", "sh", "-c", script], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
        )
        assert self._process.stdout is not None
        assert self._process.stdout.readline() == "up\n"
        self.pid = self._process.pid

    def argv(self, *argv: str) -> list[str]:
        return ["nsenter", "--target", str(self.pid), "--net", *argv]

    def run(self, *argv: str) -> str:
        done = subprocess.run(self.argv(*argv), capture_output=True, text=True, check=False, env=CLEAN)
        assert done.returncode == 0, f"{argv}: {done.stderr}{done.stdout}"
        return done.stdout

    def python(self, script: str, *args: str) -> subprocess.Popen[str]:
        argv = self.argv(sys.executable, "-c", script, *args)
        return subprocess.Popen(argv, stdout=subprocess.PIPE, stdin=subprocess.PIPE, text=True, env=CLEAN)

    def close(self) -> None:
        self._process.kill()
        self._process.communicate()


@contextlib.contextmanager
def namespaces(count: int) -> Iterator[list[Namespace]]:
    with contextlib.ExitStack() as stack:
        made = []
        for _ in range(count):
            made.append(Namespace())
            stack.callback(made[-1].close)
        yield made


@contextlib.contextmanager
def running(settings: RelayConfig, tmp_path: Path) -> Iterator[RelayProcess]:
    relay = RelayProcess.start(settings, CLEAN, tmp_path / "err")
    try:
        yield relay
    finally:
        relay.kill()


def config(hosts: Sequence[Namespace], report: Path, links: Mapping[Pair, Link] = MappingProxyType({})) -> RelayConfig:
    return RelayConfig(
        hosts=tuple(
            RelayHost(
                name=f"h{i}",
                netns_pid=host.pid,
                device="eth1",
                address=f"198.19.0.{i}/16",
                mac=f"02:00:00:00:00:{i:02x}",
            )
            for i, host in enumerate(hosts, 1)
        ),
        links=links,
        seed=7,
        report_path=str(report),
        control_path=str(report.with_name("relay.sock")),
    )
