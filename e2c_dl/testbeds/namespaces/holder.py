"""Processes that hold namespaces: one per host, its pid 1, and one for the core that all hosts are cabled to.

A holder is a shell that says on a pipe how far it is, and goes on when it is told to::

    controller                         host: unshare -> sh, pid 1
        | <---------------- "pid 4711" |  namespaces are there
        |                              |  mounts: a root of its own
        | <----- "closed PATH" ... "apart" |
        |                              |  hostname, sysctls
        | <-- "sysctl KEY VALUE" ...   |  as they are in force now
        | <---------------- "prepared" |
        | network is cabled, CPU quota |
        | "go" ----------------------> |  addresses, sshd
        | <----------------- "started" |  from here on it only reaps

If the controller dies before "go", the host ends by itself; later it stays until its pid 1 is killed, whereupon the
kernel kills everything in it.

The cables between hosts, as lines for `ip -batch`: two bridges in the core, one pair of veth devices per cable.

::

      program's network        core                                     host i
      e2c-RUN 198.18.S.1 ===== up0 -[ bridge mgmt ]- m<i> ============== eth0 198.18.S.<10+i>
                                    [ bridge data ]- d<i> ============== eth1 198.19.0.<10+i>    only if asked for

Each pair is made inside the core with its far end in the right place at once: no device of a run is ever in the
program's own network, but for the one that carries the run's id. That network is the machine's only where the program
did not move out of it (``rootless``).
"""

from __future__ import annotations

import os
import select
import subprocess
import time
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import IO

from e2c_dl.errors import TestbedError
from e2c_dl.testbeds.this_machine.addresses import DATA_DEVICE, MANAGEMENT_DEVICE, gateway, uplink

_FOLLOWS_WITHIN_S = 2.0
_TIMEOUT_S = 30.0  # 16 hosts take half a second on an idle machine

# The pid that the controller knows stands in the machine's /proc, which the host still has at this point. Sysctls are
# read back by grep: the shell's own read takes a byte at a time, and a sysctl's second byte is never given.
HOST_INIT = """\
set -eu
directory=$1 name=$2 sshd=$3 config=$4 address=$5
read -r pid rest </proc/self/stat
echo "pid $pid"
mount --all --fstab "$directory/fstab"
[ ! -e "$directory/root" ] || . "$directory/root"
echo "apart"
hostname "$name"
cd /proc/sys
keys=
while read -r key value; do
    { echo "$value" >"$key"; } 2>/dev/null || :
    keys="$keys $key"
done <"$directory/sysctl"
grep -s "" $keys /dev/null | sed "s/^/sysctl /; s/:/ /"
cd /
echo "prepared"
read -r go
ip -batch "$directory/network"
"$sshd" -D -f "$config" -o "ListenAddress=$address" -E "$directory/sshd.log" </dev/null >/dev/null 2>&1 &
echo "started"
exec </dev/null >/dev/null 2>&1
wait "$!"
"""

HELD_BY_SSHD = 128
"""A host's status is its sshd's: this and the number of the signal, if that was killed."""

KEEPER_INIT = """\
set -eu
read -r pid rest </proc/self/stat
ip link set lo up
echo "pid $pid"
exec sleep infinity >/dev/null 2>&1
"""

CORE_INIT = """\
set -eu
read -r pid rest </proc/self/stat
quiet=/proc/sys/net/ipv6/conf/default/disable_ipv6
[ ! -e "$quiet" ] || echo 1 >"$quiet"
echo "pid $pid"
exec sleep infinity >/dev/null 2>&1
"""

_UNSHARE_HOST = (
    *("unshare", "--net", "--uts", "--ipc", "--mount", "--pid"),
    *("--fork", "--kill-child=SIGKILL", "--propagation=private"),  # a killed unshare takes the host along
)


class Holder:
    """A process that holds namespaces. ``pid`` is the one to enter them by."""

    def __init__(self, name: str, argv: Sequence[str], environ: Mapping[str, str], log: Path) -> None:
        self.name, self._log, self._pending = name, log, b""
        with log.open("wb") as errors:  # a file: a pipe that nobody reads fills up, and stops who writes to it
            self._process: subprocess.Popen[bytes] = subprocess.Popen(
                argv,
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                stderr=errors,
                env=dict(environ),
                start_new_session=True,  # Ctrl-C at a terminal is for the controller: hosts are released in order
            )
        self._deadline_s = time.monotonic() + _TIMEOUT_S  # one for all waiting: each line must not start it anew
        self.pid = 0

    def await_pid(self) -> int:
        """Wait until the namespaces are there; the pid to enter them by."""
        self.pid = int(self.expect("pid")[-1][0])
        return self.pid

    def expect(self, word: str) -> list[list[str]]:
        """Wait for the line that begins with ``word``; all lines until then, that one last, without their first words.

        Raises: TestbedError if the holder ends, or takes too long.
        """
        lines: list[list[str]] = []
        while True:
            first, *rest = self._line().split()
            lines.append(rest)
            if first == word:
                return lines

    def tell_go(self) -> None:
        """Let the holder go on. Raises: TestbedError if it is not there any more."""
        try:
            os.write(_descriptor(self._process.stdin), b"go\n")
        except BrokenPipeError as error:
            raise self._failed("ended before its network was ready") from error

    def close(self) -> None:
        """Let go of the pipes; the process stays."""
        for pipe in (self._process.stdin, self._process.stdout):
            if pipe is not None:
                pipe.close()

    def ended(self) -> int | None:
        """The exit status of what held it, which has ended; negative: a signal killed it. None: that is not known.

        Who started it ends after it, on a busy machine a while.
        """
        try:
            return self._process.wait(_FOLLOWS_WITHIN_S)
        except subprocess.TimeoutExpired:
            return None

    @property
    def killed(self) -> bool:
        """Whether what it held was killed by SIGKILL: unshare wants to end likewise, and fails of it with status 1."""
        return "unshare: sig" in self._log.read_text(encoding="utf-8", errors="replace")

    def reap(self) -> None:
        """Wait for the end of a holder that was killed."""
        self.close()
        self._process.wait()

    def _line(self) -> str:
        descriptor = _descriptor(self._process.stdout)
        while b"\n" not in self._pending:
            left_s = max(0.0, self._deadline_s - time.monotonic())
            if not select.select([descriptor], [], [], left_s)[0]:
                raise self._failed(f"was not up after {_TIMEOUT_S:.0f} s")
            piece = os.read(descriptor, 4096)  # not readline: select knows nothing of what a buffered reader holds back
            if not piece:
                raise self._failed("ended while it was being brought up")
            self._pending += piece
        line, _, self._pending = self._pending.partition(b"\n")
        return line.decode()

    def _failed(self, what: str) -> TestbedError:
        said = self._log.read_text(encoding="utf-8", errors="replace").strip().splitlines()
        return TestbedError(
            f"host {self.name} {what}: {said[-1] if said else 'it said nothing'}; `e2c-dl doctor` may know"
        )


def start_keeper(run: Path, environ: Mapping[str, str]) -> Holder:
    """What keeps the controller's own namespaces, where these are the run's: without root."""
    return Holder("keeper", ["sh", _script(run, "keeper.sh", KEEPER_INIT)], environ, run / "keeper.log")


def start_core(run: Path, environ: Mapping[str, str]) -> Holder:
    """The network that hosts are cabled to: apart from the machine's, whose firewall would filter what it bridges."""
    script = _script(run, "core.sh", CORE_INIT)
    return Holder("core", ["unshare", "--net", "sh", script], environ, run / "core.log")


def start_host(name: str, directory: Path, sshd: Sequence[str], address: str, environ: Mapping[str, str]) -> Holder:
    """Begin to bring up a host. ``sshd`` is the program and its configuration, ``address`` where it listens."""
    script = _script(directory, "init.sh", HOST_INIT)
    argv = [*_UNSHARE_HOST, "sh", script, str(directory), name, *sshd, address]
    return Holder(name, argv, environ, directory / "init.log")


def _script(directory: Path, name: str, text: str) -> str:
    """``text`` in a file, so that a list of processes shows a name, not a program."""
    (directory / name).write_text(text, encoding="utf-8")
    return str(directory / name)


def _descriptor(pipe: IO[bytes] | None) -> int:
    if pipe is None:
        raise ValueError("a holder has pipes on both sides")
    return pipe.fileno()


def in_core(run_id: str, machine_pid: int, host_pids: Sequence[int], with_data: bool) -> list[str]:
    """What to do inside the core. ``machine_pid`` is of any process in the machine's own network."""
    lines = [*_bridge("mgmt"), *_cable("up0", "mgmt", uplink(run_id), machine_pid)]
    for i, pid in enumerate(host_pids):
        lines += _cable(f"m{i}", "mgmt", MANAGEMENT_DEVICE, pid)
    if with_data:
        lines += _bridge("data")
        for i, pid in enumerate(host_pids):
            lines += _cable(f"d{i}", "data", DATA_DEVICE, pid)
    return lines


def in_machine(run_id: str, slot: int) -> list[str]:
    """What to do in the machine's own network, afterwards."""
    device = uplink(run_id)
    return [f"addr add {gateway(slot)} dev {device}", f"link set {device} up"]


def _bridge(name: str) -> list[str]:
    return [f"link add {name} type bridge", f"link set {name} up"]


def _cable(near: str, bridge: str, far: str, far_pid: int) -> list[str]:
    return [f"link add {near} type veth peer name {far} netns {far_pid}", f"link set {near} master {bridge} up"]
