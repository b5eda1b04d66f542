"""Whole runs of a small scenario through the command line, as a user starts them, and what they leave."""

import json
import os
import shutil
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterable, Iterator, Sequence
from pathlib import Path

from e2c_dl.testbeds import registry
from e2c_dl.testbeds.namespaces import cleanup
from e2c_dl.testbeds.this_machine.processes import processes_of

COMMAND = [sys.executable, "-c", "from e2c_dl.cli.main import main; main()"]
LIMIT_S = 600  # of what takes ten seconds to a minute where nothing else runs

STAGES = ("provision", "deploy", "emulate", "prepare", "train", "collect")
_BROKEN = """
import dataclasses, sys
from e2c_dl.campaign import run
from e2c_dl.cli.main import main
from e2c_dl.errors import TestbedError

def broken(act):
    def acting(campaign):
        act(campaign)
        raise TestbedError("made to fail")
    return acting

stage = sys.argv.pop(1)
run.STEPS = tuple(
    dataclasses.replace(step, act=broken(step.act)) if step.name == stage else step for step in run.STEPS
)
main()
"""

_UNRELEASED = """
import dataclasses
from e2c_dl.campaign import run
from e2c_dl.cli.main import main
from e2c_dl.errors import TestbedError

def refuse(campaign):
    raise TestbedError("cannot be removed")

run.STEPS = tuple(dataclasses.replace(step, act=refuse) if step.name == "release" else step for step in run.STEPS)
main()
"""

UNRELEASED = [sys.executable, "-c", _UNRELEASED]
"""``e2c-dl`` that releases nothing."""

_IMPATIENT = """
import sys
from e2c_dl.campaign.hosts import life
from e2c_dl.cli.main import main

life.LOST_AFTER = 6
main()
"""

IMPATIENT = [sys.executable, "-c", _IMPATIENT]
"""``e2c-dl`` that gives a silent host up after twelve seconds."""

PATIENT = [sys.executable, "-c", _IMPATIENT.replace("LOST_AFTER = 6", "LOST_AFTER = 1_000_000")]
"""``e2c-dl`` that gives no silent host up."""

LAYERS = """\
environment:
  job_name: small
  g5k: {cluster: paradoxe}
layers:
- name: edge
  services:
  - {name: Trainer, env: &t {strategy: allreduce, iterations: %d, batch_size: 16, bucket_bytes: 256KiB%s}}
- name: fog
  services:
  - {name: Trainer, env: *t}
"""
THIRD = """\
- name: cloud
  services:
  - {name: Trainer, env: *t}
"""
NETWORK = """\
networks:
- {src: '*.*', dst: '*.*', delay: 3ms, rate: 50mbit}
"""
EMULATION = """\
compute: {method: sleep, cores: 0.1}
"""
# The workflow of the experiments prepares nothing; those of users do, and a run may fail or be stopped there too.
PREPARE = """
  prepare:
    - name: Something is prepared
      ansible.builtin.command: {argv: [sleep, "1"]}
"""


def broken(stage: str) -> list[str]:
    """``e2c-dl`` whose ``stage`` fails when all that it does is done."""
    return [sys.executable, "-c", _BROKEN, stage]


def scenario(
    folder: Path,
    workflow: Path,
    iterations: int = 6,
    network: str = NETWORK,
    emulation: str = EMULATION,
    shapes: bool = False,
    hosts: int = 3,
) -> Path:
    """Two or three hosts, one per layer; returns the folder.

    ``shapes``: workers compute nothing, and need no torch, whose import is most of what a worker here costs.
    For tests of how a run ends, whatever it computes.
    """
    folder.mkdir(parents=True)
    layers = LAYERS + (THIRD if hosts == 3 else "")
    (folder / "layers_services.yaml").write_text(layers % (iterations, ", mathematics: shapes" if shapes else ""))
    if shapes:
        shutil.copyfile(workflow.with_name("profile.json"), folder / "profile.json")
    (folder / "network.yaml").write_text(network)
    (folder / "emulation.yaml").write_text(emulation)
    (folder / "workflow.yaml").write_text(workflow.read_text().replace("\n  launch:", f"{PREPARE}\n  launch:", 1))
    return folder


class Started:
    """One ``e2c-dl`` under way, in a process group of its own, its output in a file."""

    def __init__(
        self, *arguments: object, log: Path, prefix: tuple[str, ...] = (), command: Sequence[str] = COMMAND
    ) -> None:
        self._log = log
        self.process = subprocess.Popen(
            [*prefix, *command, *map(str, arguments)],
            stdin=subprocess.DEVNULL,
            stdout=log.open("w"),
            stderr=subprocess.STDOUT,
            start_new_session=True,
        )

    @property
    def said(self) -> str:
        return self._log.read_text()

    def kill(self) -> None:
        """End it at once, if it has not ended."""
        if self.process.poll() is None:
            self.process.kill()
            self.process.wait()

    def until(self, text: str) -> None:
        """Return when ``text`` was printed."""
        deadline = time.monotonic() + LIMIT_S
        while text not in self.said:
            assert self.process.poll() is None, self.said
            assert time.monotonic() < deadline, self.said
            time.sleep(0.05)  # polling another program's output

    def until_again(self, text: str) -> None:
        """Return when ``text`` was printed once more than until now."""
        count, deadline = self.said.count(text), time.monotonic() + LIMIT_S
        while self.said.count(text) == count:
            assert self.process.poll() is None, self.said
            assert time.monotonic() < deadline, self.said
            time.sleep(0.05)  # polling another program's output

    def interrupt(self) -> None:
        """Ctrl-C: to the whole group, as a terminal sends it."""
        os.killpg(self.process.pid, signal.SIGINT)

    def ended(self) -> int:
        """Its exit code."""
        return self.process.wait(LIMIT_S)

    @property
    def run_id(self) -> str:
        return self.said.split("run ")[1].split(",")[0]


def starting(
    folder: Path, workflow: Path, *, testbed: str, destroy: Callable[[str], object]
) -> Iterator[Callable[..., Started]]:
    """Gives what starts a deploy on ``testbed`` in ``folder``; afterwards all of them are ended and destroyed.

    Without a ``source``, of two hosts that compute nothing.
    """
    started = []
    (folder / "artifacts").mkdir()

    def begin(
        iterations: int = 3,
        source: Path | None = None,
        command: Sequence[str] = COMMAND,
        archive: Path = folder / "a",
        options: Sequence[str] = (),
    ) -> Started:
        source = source or scenario(folder / "s", workflow, iterations=iterations, shapes=True, hosts=2)
        arguments = ("deploy", "--on", testbed, source, folder / "artifacts", "--archive", archive, *options)
        started.append(Started(*arguments, log=folder / "log", command=command))
        return started[-1]

    yield begin
    for run in started:
        run.kill()
        if "run " in run.said:
            destroy(run.run_id)


def facts(archive: Path) -> dict:
    return json.loads((archive / "run.json").read_text())


def nothing_left(run_id: str) -> None:
    assert cleanup.leftovers(run_id) == ()
    assert run_id not in {run.id for run in registry.runs()}


def worker_pid(run_id: str, host: str) -> int:
    """The pid, on this machine, of the training process of ``host``."""
    wanted = f"/{run_id}/hosts/{host}/"
    return _pid(lambda words: words[1:4] == ["-m", "e2c_dl.drivers.live", "train"] and wanted in f"{words[4]}/")


def wait_for_process(argv: list[str]) -> None:
    """Return when a process with this command line runs on this machine."""
    deadline = time.monotonic() + LIMIT_S
    while True:
        try:
            _pid(lambda words: words[: len(argv)] == argv)
        except AssertionError:
            assert time.monotonic() < deadline, f"no {argv} runs"
            time.sleep(0.05)  # polling another program
        else:
            return


def nothing_left_but_traces(run_id: str) -> None:
    """Of a run whose traces could not all be put into its archive: their place, until they are fetched or destroyed."""
    assert [line for line in cleanup.leftovers(run_id) if not line.startswith("directory ")] == []
    cleanup.destroy(run_id)
    nothing_left(run_id)


def processes_on(run_id: str, host: str) -> list[int]:
    """The pids, on this machine, of all processes of ``host``, its first one and its sshd included."""
    first = next(access.netns_pid for access in registry.load(run_id).hosts if access.name == host)
    own = os.stat(f"/proc/{first}/ns/pid")
    found = []
    for entry in Path("/proc").iterdir():
        try:
            if entry.name.isdigit() and os.path.samestat(os.stat(entry / "ns/pid"), own):
                found.append(int(entry.name))
        except OSError:  # gone, or somebody else's
            continue
    return found


def freeze(run_id: str, host: str) -> None:
    """All processes of ``host`` are stopped."""
    for pid in processes_on(run_id, host):
        os.kill(pid, signal.SIGSTOP)


def thaw(run_id: str, host: str) -> None:
    """All processes of ``host`` go on."""
    for pid in processes_on(run_id, host):
        os.kill(pid, signal.SIGCONT)


def relay_pid(run_id: str) -> int:
    """The pid of the run's relay."""
    ours = processes_of(run_id)
    return _pid(lambda words: words[1:3] == ["-m", "e2c_dl.emulation.relay.main"], ours)


def _pid(wanted: Callable[[list[str]], bool], among: Iterable[int] | None = None) -> int:
    pids = among or [int(entry.name) for entry in Path("/proc").iterdir() if entry.name.isdigit()]
    for pid in pids:
        try:
            words = Path(f"/proc/{pid}/cmdline").read_bytes().decode().split("\0")
        except (FileNotFoundError, ProcessLookupError):
            continue
        if wanted(words):
            return pid
    raise AssertionError("no such process runs")
