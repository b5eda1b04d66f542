"""Hosts of this machine, joined by links of one's choice, and a command of one's own on each: for scripts of any kind.

::

    with up(("a", "b", "c")) as bed:                          namespaces, some seconds
        with bed.joined({("a", "b"): Link(rate_bps=50e6)}) as joined:
            bed.run(argv, torch_environ(bed, port=29500))     a process per host, side by side
        bed.collect(folder)                                   what they wrote into HOST_DIR: folder/hosts/HOST/...
        joined.report["links"]                                the relay's own counters

Pairs without a link are not shaped. Hosts have files of their own: only HOST_DIR is seen outside. As root.
"""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

import e2c_dl
from e2c_dl.emulation.backend import Backend
from e2c_dl.emulation.relay.config import RelayConfig, RelayHost
from e2c_dl.emulation.relay.process import RelayProcess
from e2c_dl.emulation.relay.report import RelayReport
from e2c_dl.scenario.emulation.hosts import DEFAULT_TCP
from e2c_dl.testbeds import registry
from e2c_dl.testbeds.base import Access
from e2c_dl.testbeds.namespaces.hosts import NamespaceHosts
from e2c_dl.testbeds.programs import enter
from e2c_dl.testbeds.this_machine import addresses
from e2c_dl.testbeds.this_machine.hosts import HostSpec
from e2c_dl.topology import Bottleneck, Link, Pair

TREE = Path(e2c_dl.__file__).parents[1]


@dataclass
class Joined:
    """Links in force. ``report`` is there once they no longer are."""

    relay: RelayProcess
    report: RelayReport | None = None


class Bed:
    """Hosts that are up. Driven by one thread."""

    def __init__(self, testbed: NamespaceHosts, accesses: tuple[Access, ...]) -> None:
        self._testbed, self.accesses = testbed, accesses
        self.directory = testbed.run.directory

    @contextmanager
    def joined(
        self, links: Mapping[Pair, Link], bottlenecks: tuple[Bottleneck, ...] = (), *, seed: int = 1
    ) -> Iterator[Joined]:
        """While in it, the hosts are joined by ``links``, through a relay of their own. Raises: EmulationError."""
        hosts = tuple(
            RelayHost(
                name=access.name, netns_pid=access.netns_pid or 0, device=access.data_device,
                address=f"{access.data_address}/{addresses.DATA_NETWORK.prefixlen}",
                mac=addresses.mac(access.data_address),
            )
            for access in self.accesses
        )  # fmt: skip
        config = RelayConfig(
            hosts=hosts, links=links, bottlenecks=bottlenecks, seed=seed, report_path=str(self.directory / "relay.json")
        )
        joined = Joined(RelayProcess.start(config, dict(os.environ), self.directory / "relay.log"))
        try:
            self._testbed.settle()
            yield joined
            joined.report = joined.relay.stop()
        finally:
            joined.relay.kill()

    def run(
        self, argv: Sequence[str], environ: Callable[[int], Mapping[str, str]], *, within_s: float = 180.0
    ) -> list[str]:
        """What ``argv`` printed on each host, run on all side by side; ``environ``: of the host of that number.

        Raises: RuntimeError, with what they complain of, if one fails or is not done in time; none is left running.
        """
        outputs = [self.directory / f"output-{access.name}" for access in self.accesses]
        processes = []
        try:
            for number, (access, output) in enumerate(zip(self.accesses, outputs, strict=True)):
                command = enter(access, _with_environ(environ(number), argv))
                with output.open("wb") as into:
                    processes.append(
                        subprocess.Popen(command, stdout=into, stderr=subprocess.STDOUT, stdin=subprocess.DEVNULL)
                    )
            statuses = _await_all(processes, time.monotonic() + within_s)
        finally:
            for process in processes:
                process.kill()
                process.wait()
        said = [output.read_text(errors="replace") for output in outputs]
        if any(statuses):
            names = [access.name for access in self.accesses]
            ends = [
                f"{name}: {status}: {text[-800:]}" for name, status, text in zip(names, statuses, said, strict=True)
            ]
            raise RuntimeError(" | ".join(ends))
        return said

    def collect(self, folder: Path) -> None:
        """What is in each host's directory is moved into ``folder``/hosts/HOST."""
        for access in self.accesses:
            target = folder / "hosts" / access.name
            target.mkdir(parents=True)
            for entry in Path(access.run_dir).iterdir():
                shutil.move(entry, target / entry.name)


def _await_all(processes: Sequence[subprocess.Popen[bytes]], deadline_s: float) -> list[int | str]:
    """Exit statuses; of one that was not done in time, that. The others are not waited for once one has failed."""
    statuses: list[int | None] = [None] * len(processes)
    while None in statuses and not any(statuses) and time.monotonic() < deadline_s:
        time.sleep(0.05)
        statuses = [process.poll() for process in processes]
    return ["not done" if status is None else status for status in statuses]


@contextmanager
def up(names: tuple[str, ...]) -> Iterator[Bed]:
    """While in it, hosts called ``names`` are up on this machine. Raises: TestbedError."""
    run = registry.begin(registry.new_run_id(), scenario="benchmark", choose_slot=addresses.free_slot)
    os.environ.update(run.environ)
    testbed = NamespaceHosts(run, [HostSpec(name=name) for name in names], backend=Backend.RELAY, tcp=DEFAULT_TCP)
    try:
        yield Bed(testbed, testbed.up())
    finally:
        testbed.down()


def torch_environ(bed: Bed, *, port: int = 29500, **more: str) -> Callable[[int], dict[str, str]]:
    """What torch.distributed reads where a launcher starts one rank per host, gloo over the data device."""
    first = bed.accesses[0]

    def of(number: int) -> dict[str, str]:
        access = bed.accesses[number]
        return {
            "PYTHONPATH": str(TREE), "OMP_NUM_THREADS": "1", "MASTER_ADDR": first.data_address,
            "MASTER_PORT": str(port), "RANK": str(number), "WORLD_SIZE": str(len(bed.accesses)), "LOCAL_RANK": "0",
            "HOST": access.name, "HOST_DIR": access.run_dir, "GLOO_SOCKET_IFNAME": access.data_device, **more,
        }  # fmt: skip

    return of


def python(*arguments: str) -> list[str]:
    """This interpreter with ``arguments``."""
    return [sys.executable, *arguments]


def _with_environ(environ: Mapping[str, str], argv: Sequence[str]) -> list[str]:
    return ["env", *(f"{name}={value}" for name, value in environ.items()), *argv]
