"""Where one run of the campaign takes place: its folder, disks, testbed, scenario and the commands of its user."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager, suppress
from pathlib import Path

from docker_daemon import running as docker_running
from ordinary_user import OrdinaryUser
from static_hosts import inventory, machines

from benchmarks.faults.drawn import HOSTS
from e2c_dl.testbeds import registry
from e2c_dl.worlds.virtual import ComputeProfile, GradientTimes

PROGRAM = "from e2c_dl.cli.main import main; main()"
IMPATIENT = f"from e2c_dl.campaign.hosts import life; life.LOST_AFTER = 8; {PROGRAM}"
"""What is silent is given up after 16 s, not a minute: a campaign has hundreds of runs."""

_EXPERIMENT = Path(__file__).parents[2] / "experiments" / "first-light"
_MEMORY = Path("/sys/fs/cgroup/memory")
_DISK = "size=128m"  # a deployment asks for half of it
_COMMAND_S = 120.0

_LENGTHS = ((40_000, 110_000), (0, 40_000))
_TIMES = GradientTimes(data_s=1e-4, forward_s=2e-3, backward_s=(2e-3, 2e-3))
PROFILE = ComputeProfile(
    model="cnn", dtype="float32", parameters=110_000, buckets=_LENGTHS, gradients={16: _TIMES}, evaluate_s=1e-2
)
LAYERS = """\
environment:
  job_name: faults
  g5k: {cluster: paradoxe}
layers:
- name: edge
  services:
  - {name: Trainer, env: &t {strategy: allreduce, mathematics: shapes, iterations: 12, batch_size: 16}}
- name: cloud
  services:
  - {name: Trainer, env: *t}
"""
NETWORK = "networks:\n- {src: '*.*', dst: '*.*', delay: 3ms, rate: 50mbit}\n"
# Something changes while it trains, so that hosts have agents.
EMULATION = """\
schedules:
  links:
  - {src: "*.*", dst: "*.*", rate: {steps: {0s: 40mbit, 1s: 50mbit}, period: 2s}}
"""
PREPARE = """
  prepare:
    - name: Something is prepared
      ansible.builtin.command: {argv: [sleep, "0.3"]}
"""


class Site:
    """Made anew for each run, in ``folder``."""

    FILLER = "filler"

    def __init__(self, folder: Path, testbed: str, small_disks: bool, resources: ExitStack) -> None:
        self.folder, self.testbed = folder, testbed
        self._groups: list[Path] = []
        self._user: OrdinaryUser | None = None
        self._options: list[str] = ["--on", {"rootless": "local"}.get(testbed, testbed)]
        folder.chmod(0o755)
        self.home = folder / "home"
        self.home.mkdir()
        if testbed == "rootless":
            self._user = OrdinaryUser(self.home)
        self.state = self._user.state if self._user else folder / "state"
        self.disk = self.home / "archives"
        for place in (self.state, self.disk):
            place.mkdir(parents=True)
            if small_disks:
                subprocess.run(["mount", "-t", "tmpfs", "-o", _DISK, "faults", str(place)], check=True)
                resources.callback(subprocess.run, ["umount", "--lazy", str(place)], check=True)
            if self._user:
                os.chown(place, self.home.stat().st_uid, self.home.stat().st_gid)
                place.chmod(0o700)
        if testbed == "static":
            nodes = resources.enter_context(machines(len(HOSTS), Path(tempfile.mkdtemp(dir=folder))))
            self._options += ["--inventory", str(inventory(nodes, folder / "hosts.yaml"))]
        self.archive, self.moved = self.disk / "a", self.disk / "moved"
        self._write()
        resources.callback(self._free_memory)

    @property
    def environ(self) -> dict[str, str]:
        """Of every command that the user types."""
        if self._user:
            return dict(os.environ)  # what becomes the user replaces it
        return {**os.environ, "HOME": str(self.home), registry.STATE_VARIABLE: str(self.state)}

    def argv(self, *words: str, program: str = PROGRAM) -> list[str]:
        """``e2c-dl`` with ``words``, as the user of this site."""
        command = [sys.executable, "-c", program, *words]
        return self._user.argv(*command) if self._user else command

    @property
    def deploy(self) -> list[str]:
        scenario, artifacts = str(self.home / "faults"), str(self.home / "artifacts")
        words = ("deploy", scenario, artifacts, *self._options, "--archive", str(self.archive))
        return self.argv(*words, program=IMPATIENT)

    def command(self, *words: str) -> subprocess.CompletedProcess[str]:
        """``e2c-dl`` with ``words``, ended."""
        try:
            return subprocess.run(
                self.argv(*words), env=self.environ, cwd=self.home, stdin=subprocess.DEVNULL, capture_output=True,
                text=True, errors="replace", timeout=_COMMAND_S, check=False,
            )  # fmt: skip
        except subprocess.TimeoutExpired:
            return subprocess.CompletedProcess(words, -1, "", f"not over after {_COMMAND_S:.0f} s")

    def make_room(self) -> None:
        """Remove what filled the disks."""
        for place in (self.disk, self.state):
            with suppress(OSError):
                (place / self.FILLER).unlink()

    def limit_memory(self, pid: int, more_bytes: int) -> None:
        """From now on ``pid`` is killed if it takes ``more_bytes`` more."""
        group = _MEMORY / f"faults-{os.getpid()}-{pid}"
        group.mkdir()
        self._groups.append(group)
        (group / "memory.limit_in_bytes").write_text(str(more_bytes))
        with suppress(ProcessLookupError):
            (group / "cgroup.procs").write_text(str(pid))

    def _free_memory(self) -> None:
        for group in self._groups:
            with suppress(OSError):  # busy for a moment; the next one has another name
                group.rmdir()

    def _write(self) -> None:
        scenario = self.home / "faults"
        scenario.mkdir()
        workflow = (_EXPERIMENT / "workflow.yaml").read_text().replace("\n  launch:", f"{PREPARE}\n  launch:", 1)
        files = {"layers_services": LAYERS, "network": NETWORK, "emulation": EMULATION, "workflow": workflow}
        for name, text in files.items():
            (scenario / f"{name}.yaml").write_text(text)
        (scenario / "profile.json").write_text(PROFILE.to_json())
        (self.home / "artifacts").mkdir()


@contextmanager
def prepared(testbed: str) -> Iterator[None]:
    """While in it, ``testbed`` can be used: docker's has a daemon."""
    if testbed != "docker":
        yield
        return
    with docker_running():
        yield


def known(file: Path) -> dict[str, object]:
    """The run.json at ``file``, as far as there is one."""
    with suppress(OSError, ValueError):
        found: dict[str, object] = json.loads(file.read_text())
        return found
    return {}
