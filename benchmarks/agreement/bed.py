"""The live side: four hosts brought up once; for each topology a relay of its own, for each strategy fresh workers.

Workers are started directly on the hosts, without E2Clab: what is compared is training, not its deployment.
"""

from __future__ import annotations

import json
import secrets
import shutil
import subprocess
from collections.abc import Iterator
from contextlib import contextmanager
from csv import DictReader
from pathlib import Path
from typing import Any

from benchmarks.script_bed import TREE, Bed, up
from e2c_dl.archive import layout
from e2c_dl.drivers.live.detached import KEY, MEMBERS
from e2c_dl.scenario.model import Scenario
from e2c_dl.testbeds.base import Access
from e2c_dl.testbeds.programs import enter
from e2c_dl.trace.model import Phase, Trace
from e2c_dl.trace.store import read_trace
from e2c_dl.worlds.live.handshake import KEY_BYTES

TRAINED_WITHIN_S = 180.0


class Deployment:
    """Hosts that are up. Driven by one thread."""

    def __init__(self, bed: Bed) -> None:
        self._bed = bed
        self._runs = 0

    @contextmanager
    def emulated(self, scenario: Scenario) -> Iterator[None]:
        """While in it, the hosts are joined by the links of ``scenario``. Raises: EmulationError."""
        topology = scenario.emulated_topology()
        with self._bed.joined(topology.links, topology.bottlenecks):
            yield

    def train(self, scenario: Scenario) -> tuple[Trace, float]:
        """(the trace, the share of this machine's processors that was in use while it trained).

        Raises: RuntimeError, with what the workers say, if one of them does not finish.
        """
        self._runs += 1
        key = secrets.token_hex(KEY_BYTES)
        members = [_member(scenario, access) for access in self._bed.accesses]
        directories = {access.name: Path(access.run_dir) / str(self._runs) for access in self._bed.accesses}
        for directory in directories.values():
            directory.mkdir()
            shutil.copytree(scenario.path, directory / layout.SCENARIO)  # not a link: hosts have a /tmp of their own
            (directory / MEMBERS).write_text(json.dumps(members))
            (directory / KEY).touch(mode=0o600)
            (directory / KEY).write_text(key)
        workers = [
            subprocess.Popen(_worker(access, directories[access.name], scenario), stderr=subprocess.PIPE, text=True)
            for access in self._bed.accesses
        ]
        said = [worker.communicate(timeout=TRAINED_WITHIN_S)[1] for worker in workers]
        if any(worker.returncode for worker in workers):
            raise RuntimeError(" | ".join(filter(None, said)))
        archive = self._bed.directory / f"run-{self._runs}"
        for name, directory in directories.items():
            shutil.copytree(directory, archive / layout.HOSTS / name, symlinks=True)  # nothing is read through a link
        trace = read_trace(archive)
        return trace, busy_share(directories[trace.ranks[0].host] / layout.METRICS, trace)


@contextmanager
def deployed(names: tuple[str, ...]) -> Iterator[Deployment]:
    """While in it, hosts called ``names`` are up on this machine. Raises: TestbedError."""
    with up(names) as bed:
        yield Deployment(bed)


def busy_share(metrics: Path, trace: Trace) -> float:
    """What part of the machine's processor time was used, by whomever, while rank 0 of ``trace`` trained.

    From rank 0's metrics.csv, whose rows are a second apart: those around its training.
    """
    spans = trace.ranks[0].spans
    training = spans[spans["phase"] == Phase.TRAINING][0]
    with metrics.open() as file:
        rows = [
            (int(row["time_ns"]), float(row["machine_busy_s"]), float(row["machine_idle_s"]))
            for row in DictReader(file)
        ]
    first = max((row for row in rows if row[0] <= training["start_ns"]), default=rows[0])
    last = min((row for row in rows if row[0] >= training["end_ns"]), default=rows[-1])
    busy_s, idle_s = last[1] - first[1], last[2] - first[2]
    return busy_s / (busy_s + idle_s)


def _member(scenario: Scenario, access: Access) -> dict[str, Any]:
    """The host's entry of members.json, as the Trainer service publishes it."""
    host = scenario.topology.host(access.name)
    speed = (scenario.compute.cores or 1.0) / scenario.emulated_factor(host.name)
    return {
        "_id": host.service_id, "host": host.name, "address": access.address, "data_address": access.data_address,
        "data_device": access.data_device, "speed": speed, "strict": False,
    }  # fmt: skip


def _worker(access: Access, directory: Path, scenario: Scenario) -> list[str]:
    service_id = scenario.topology.host(access.name).service_id
    command = [
        "env",
        f"PYTHONPATH={TREE}",
        access.python,
        "-m",
        "e2c_dl.drivers.live",
        "train",
        str(directory),
        service_id,
    ]
    return enter(access, command)
