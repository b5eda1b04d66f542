"""A whole run in User-Mode Linux as a user starts it, its hosts left up; what the kernel says of its links meanwhile.

::

    argv    SCENARIO ARTIFACTS ARCHIVE OTHER        OTHER: a scenario of the same hosts, for `e2c-dl emulate`
    stdout  JSON: whether the kernel has netem, what `e2c-dl deploy` came to, the links of its first host while it ran,
            what each `e2c-dl emulate ...` said afterwards

Judges nothing.
"""

from __future__ import annotations

import json
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

from click.testing import CliRunner

from benchmarks.uml import hosts
from e2c_dl.archive import layout
from e2c_dl.cli.emulate import emulate
from e2c_dl.cli.machine import destroy
from e2c_dl.emulation.tc import on_host
from e2c_dl.testbeds import registry
from e2c_dl.testbeds.this_machine.probes import has_netem

PROGRAM = str(Path(sys.executable).with_name("e2c-dl"))
LOOKS_EVERY_S = 0.5


def deployed(*arguments: str) -> dict[str, Any]:
    """What `e2c-dl deploy` came to, and what was in force on its first host whenever that was looked at."""
    begun_s = time.monotonic()
    looks: list[dict[str, Any]] = []
    with subprocess.Popen(
        [PROGRAM, "deploy", *arguments], stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True
    ) as process:
        while process.poll() is None:
            looks += [looked(run) for run in registry.runs() if run.hosts and trains(run)]
            time.sleep(LOOKS_EVERY_S)
        said, _ = process.communicate()
    return {"status": process.returncode, "said": said, "took_s": time.monotonic() - begun_s, "looks": looks}


def trains(run: registry.RegisteredRun) -> bool:
    """Whether the first host's agent is ready, and its worker has not ended: looking takes time from all else."""
    left = Path(run.hosts[0].run_dir)
    return (left / layout.CHANGES).exists() and not (left / layout.OUTCOME).exists()


def looked(run: registry.RegisteredRun) -> dict[str, Any]:
    """What is in force on the first host, and between which two moments of the machine's clock that was so."""
    first = run.hosts[0]
    begin_ns = time.monotonic_ns()
    with hosts.network(Path(f"/proc/{first.netns_pid}/ns/net")):
        found = on_host.read_back(first.data_device)
    return {"begin_ns": begin_ns, "end_ns": time.monotonic_ns(), "destinations": found["destinations"]}


def called(command: Any, *arguments: str) -> dict[str, Any]:
    """What one of our commands, called in this process, said and came to."""
    begun_s = time.monotonic()
    done = CliRunner().invoke(command, arguments)
    said = {"status": done.exit_code, "stdout": done.stdout, "stderr": done.stderr}
    return {**said, "took_s": time.monotonic() - begun_s}


def main() -> None:
    scenario, artifacts, archive, other = sys.argv[1:]
    said: dict[str, Any] = {"netem": has_netem()}
    said["deploy"] = deployed(scenario, artifacts, "--on", "local", "--archive", archive, "--keep")
    if said["deploy"]["status"] == 0:
        said["asked"] = called(emulate, "show", "--json")
        said["dry run"] = called(emulate, "apply", other, "--dry-run")
        said["apply"] = called(emulate, "apply", other)
        said["applied"] = called(emulate, "show", "--scenario", other, "--json")
        said["clear"] = called(emulate, "clear")
        said["cleared"] = called(emulate, "show", "--scenario", other, "--json")
        said["destroy"] = called(destroy, *(run.id for run in registry.runs()))
    said["left"] = [run.id for run in registry.runs()]
    print(json.dumps(said))


if __name__ == "__main__":
    main()
