"""The hosts that a run makes on this machine, whatever they are: brought up whole or not at all, and released.

Beside their base, what all kinds of them need: keys, programs of the machine run to their end, and waiting for sshd.
"""

from __future__ import annotations

import shlex
import socket
import subprocess
import time
from abc import ABC, abstractmethod
from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import msgspec

from e2c_dl.archive.records import HostEnding
from e2c_dl.emulation.backend import Backend
from e2c_dl.errors import TestbedError
from e2c_dl.memory import memory_available_bytes, pressure
from e2c_dl.scenario.model import Tcp
from e2c_dl.testbeds import registry
from e2c_dl.testbeds.base import Access
from e2c_dl.testbeds.pids import start_ticks
from e2c_dl.testbeds.this_machine.addresses import DATA_DEVICE

SSH_PORT = 22
SSHD_WITHIN_S = 30.0  # of each host, on a machine that may be busy with all the others
KEYS = ("key", "hostkey")
"""Private keys in a run's directory: the way in, and what its hosts show."""

_POLL_S = 0.005  # four hosts are up within 0.1 s: a longer pause would be most of that


@dataclass(frozen=True, kw_only=True)
class HostSpec:
    """A host to bring up. ``cores``: how much CPU time it may use (0.5: half a core), None for no limit."""

    name: str
    cores: float | None = None


class MadeHosts(ABC):
    """The hosts of one registered run. For one thread, and one ``up``."""

    def __init__(
        self, run: registry.RegisteredRun, specs: Sequence[HostSpec], *, backend: Backend, tcp_settings: Tcp
    ) -> None:
        self.run = run  # as saved last: its hosts and details among it
        self._specs, self._backend, self._tcp = tuple(specs), backend, tcp_settings
        self._limitations: list[str] = []
        self._begun: dict[str, int | None] = {}  # host -> when its first process began: pids are given again
        self._endings: dict[str, HostEnding] = {}

    @property
    def limitations(self) -> tuple[str, ...]:
        """What of the settings could not be honoured, one sentence each; grows until ``settle``."""
        return tuple(self._limitations)

    def up(self) -> tuple[Access, ...]:
        """Bring all hosts up, sshd answering, ``netns_pid`` known; how to reach them, in the order they were given in.

        Raises: TestbedError; then, and on any other exception, all that was brought up is gone.
        """
        try:
            reached = self._start_all()
            self._begun = {each.name: start_ticks(each.netns_pid) for each in reached if each.netns_pid is not None}
            self.run = registry.changed(self.run, hosts=reached)
            self._await_all(reached)
            if self._backend is Backend.TC:
                self.settle()  # tc's data devices are there already; the relay's come later
            return reached
        except BaseException:  # Ctrl-C too: half of the hosts are of no use to anybody
            self.down()
            raise

    def endings(self) -> Mapping[str, HostEnding]:
        """Hosts that have ended, as seen when that was asked first: ask often. The machine's state is of then."""
        for access in self.run.hosts:
            begun, pid = self._begun.get(access.name), access.netns_pid
            if begun is None or pid is None or access.name in self._endings or start_ticks(pid) == begun:
                continue
            now = HostEnding(at_s=time.time(), memory_available_bytes=memory_available_bytes(), pressure=pressure())
            self._endings[access.name] = msgspec.structs.replace(now, **self._how_ended(access.name))
        return dict(self._endings)

    @abstractmethod
    def _how_ended(self, host: str) -> Mapping[str, Any]:
        """What is known of the end of that host's first process: fields of HostEnding."""

    @abstractmethod
    def down(self, keep: Collection[str] = ()) -> tuple[str, ...]:
        """Release everything of the run, what others started under its id too; what that was, one line each.

        The run directories of the hosts ``keep`` stay.
        """

    @abstractmethod
    def settle(self) -> None:
        """Set what needs the data devices: call it when a relay has made them; ``up`` does so for tc.

        Changes ``limitations``. Raises: TestbedError.
        """

    def _access(self, name: str, address: str, data_address: str, **more: Any) -> Access:
        """The way to one of them; ``more`` of Access is of its kind."""
        key = str(self.run.directory / KEYS[0])
        return Access(
            name=name, address=address, data_address=data_address, data_device=DATA_DEVICE, keyfile=key, port=SSH_PORT,
            **more,
        )  # fmt: skip

    @abstractmethod
    def _start_all(self) -> tuple[Access, ...]:
        """Make them, and start what answers on them."""

    @abstractmethod
    def _await_all(self, reached: tuple[Access, ...]) -> None:
        """Return when all of them answer."""


def run_here(argv: Sequence[str], environ: Mapping[str, str], lines: Sequence[str] = ()) -> None:
    """Run ``argv`` on this machine, with ``lines`` on its input. Raises: TestbedError if it is missing or fails."""
    text = "".join(f"{line}\n" for line in lines)
    try:
        subprocess.run(argv, input=text, env=dict(environ), capture_output=True, text=True, check=True)
    except FileNotFoundError as error:
        raise TestbedError(f"{argv[0]}: not found on this machine; `e2c-dl doctor` names the package") from error
    except subprocess.CalledProcessError as error:
        said = "; ".join(error.stderr.strip().splitlines()[:2]) or "it said nothing"
        raise TestbedError(
            f"`{shlex.join(argv)}` failed: {said}; `e2c-dl doctor` says what this machine lacks"
        ) from error


def make_keys(run: registry.RegisteredRun, environ: Mapping[str, str]) -> None:
    """KEYS, with their public halves, in the run's directory. Raises: TestbedError."""
    for name in KEYS:
        kind = ["-q", "-t", "ed25519", "-N", "", "-C", f"e2c-dl-{run.id}"]  # ed25519: made at once, RSA takes seconds
        run_here(["ssh-keygen", *kind, "-f", str(run.directory / name)], environ)


def await_sshd(access: Access, ended: Callable[[], TestbedError | None] = lambda: None) -> None:
    """Return when the host's sshd has greeted. ``ended``: why waiting is in vain, asked after each try.

    Raises: TestbedError: it does not greet in time, or what ``ended`` says.
    """
    deadline_s = time.monotonic() + SSHD_WITHIN_S
    while True:
        try:
            with socket.create_connection((access.address, access.port), timeout=1) as connection:
                connection.recv(1)  # it greets: that something listens is not enough
            return
        except OSError as error:
            if (why := ended()) is not None:
                raise why from error
            if time.monotonic() > deadline_s:
                raise TestbedError(
                    f"host {access.name}: no sshd at {access.address}: {error}; is a firewall in between?"
                ) from error
        time.sleep(_POLL_S)
