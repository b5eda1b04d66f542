"""A network of the program's own, which no other user of the machine can reach; without root, by a user namespace.

Hosts are reached over a network that would else be the machine's: every local user could connect to their ports. So
the whole program moves into a network of its own, root as it is, an ordinary user as shown, and goes on there.

::

    e2c-dl deploy ... (uid 1000, may do nothing)
        | exec: unshare --user --map-current-user --keep-caps --net        same process, same terminal
    e2c-dl deploy ... (uid 1000, all capabilities in these namespaces and those made in them)
        |-- keeper     stays in them when the program has ended: `deploy --keep`, `shell`, `logs`
        `-- core, hosts, relay, ssh, Ansible            as for root

One's own uid is kept, so files belong to whom they should, and no table of subordinate uids nor setuid program is
needed. Process ids stay the machine's: whatever happens, `destroy` finds and ends a run from outside. What an ordinary
user does not get: a CPU quota (processors are emulated by sleep) and real-time priority for the relay.
"""

from __future__ import annotations

import ctypes
import os
import shutil
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path

from e2c_dl.errors import TestbedError
from e2c_dl.testbeds.this_machine.system_path import SYSTEM_PATH, with_system

NAMESPACES = ("unshare", "--user", "--map-current-user", "--keep-caps", "--net")
ENTERED = "E2CDL_ENTERED"
_CLONE_NEWNET = 0x40000000  # of linux/sched.h
_NEEDED_CAPABILITIES = 1 << 12 | 1 << 21  # CAP_NET_ADMIN, CAP_SYS_ADMIN
_TIMEOUT_S = 10.0
_SWITCHES = {  # sysctl -> the value that forbids, and what to write instead
    "user/max_user_namespaces": ("0", "10000"),
    "user/max_net_namespaces": ("0", "10000"),
    "kernel/unprivileged_userns_clone": ("0", "1"),  # of Debian's kernels
    "kernel/apparmor_restrict_unprivileged_userns": ("1", "0"),  # of Ubuntu's, since 23.10
}

# What a host does first: a network, processes and mounts of its own.
_TRY = (
    *("unshare", "--net", "--uts", "--ipc", "--mount", "--pid", "--fork", "--kill-child=SIGKILL"),
    *("--propagation=private", "sh", "-c"),
    "ip link set lo up && hostname edge-1 && mount -t tmpfs none /dev/shm && mount -t devpts none /dev/pts"
    " && mount -t sysfs none /sys && mount -t proc none /proc",
)


def rights() -> bool:
    """Whether this process may make hosts as it is: as root, or inside."""
    return os.geteuid() == 0 or has_capabilities()


def has_capabilities(status: Path = Path("/proc/self/status")) -> bool:
    """Whether this process administers the network and the mounts of the namespaces that it is in."""
    for line in status.read_text(encoding="utf-8", errors="replace").splitlines():
        name, _, value = line.partition(":")
        if name == "CapEff":
            return int(value, 16) & _NEEDED_CAPABILITIES == _NEEDED_CAPABILITIES
    return False


def enter() -> None:
    """Move inside: to be called by the only thread, before anything of a run exists; ``entered`` from then on.

    Root's process moves itself; an ordinary user's program is started again, in place of this process. Does nothing
    inside, and where ``problem`` names one, which preflight tells.
    Raises: TestbedError if the interpreter loses its capabilities on the way.
    """
    if os.geteuid() == 0 and not entered():
        _own_network()
    if rights() or problem() is not None:
        return
    if ENTERED in os.environ:
        raise TestbedError(
            f"{sys.executable}: has no capabilities inside a user namespace; "
            "use an interpreter without file capabilities (getcap), or run as root"
        )
    again = [sys.executable, *sys.orig_argv[1:]]  # orig_argv: -m, -c and the interpreter's own options too
    sys.stdout.flush()  # what is buffered would be lost with this program's memory
    sys.stderr.flush()
    environ = {**os.environ, ENTERED: "1", "PATH": with_system(os.environ.get("PATH"))}
    os.execvpe(NAMESPACES[0], [*NAMESPACES, "--", *again], environ)


def entered() -> bool:
    """Whether this process's network is one of its own."""
    return ENTERED in os.environ


def _own_network() -> None:
    if ctypes.CDLL(None).unshare(_CLONE_NEWNET):
        return  # hosts cannot be made either, which they say better
    os.environ[ENTERED] = "1"
    subprocess.run(["ip", "link", "set", "lo", "up"], env={"PATH": SYSTEM_PATH}, check=False)


def problem() -> str | None:
    """Why an ordinary user cannot have hosts here, in a line with its remedy; None if he can. It is tried."""
    if shutil.which(NAMESPACES[0], path=with_system(os.environ.get("PATH"))) is None:
        return f"{NAMESPACES[0]} is not on this machine; apt-get install util-linux, or run as root"
    said = refused([*NAMESPACES, "--", *_TRY])
    return None if said is None else f"{said}; {remedy()}"


def refused(argv: Sequence[str]) -> str | None:
    """Why ``argv``, a program that tries something, does not succeed, in a line; None if it does."""
    try:
        done = subprocess.run(
            argv, env={"PATH": with_system(os.environ.get("PATH")), "LANG": "C.UTF-8"}, stdin=subprocess.DEVNULL,
            capture_output=True, text=True, timeout=_TIMEOUT_S, check=False,
        )  # fmt: skip
    except (OSError, subprocess.TimeoutExpired) as error:
        return str(error)
    if done.returncode == 0:
        return None
    return (done.stderr.strip().splitlines() or [f"it ended with status {done.returncode}"])[0]


def remedy(root: Path = Path("/proc/sys")) -> str:
    """What to change so that ordinary users can make namespaces, as far as the machine's switches tell."""
    wrong = [
        f"sysctl -w {key.replace('/', '.')}={instead}"
        for key, (forbids, instead) in _SWITCHES.items()
        if (root / key).is_file() and (root / key).read_text(encoding="ascii").strip() == forbids
    ]
    if wrong:
        return f"as root: {' && '.join(wrong)}; or run as root"
    return "run as root; a container needs --privileged, or --security-opt for seccomp, AppArmor and masked /proc"


def way_in(pid: int | None) -> tuple[str, ...]:
    """What to put before a command so that it runs in the user and network namespaces of ``pid``; nothing if it does.

    The command keeps this user's uid; an ordinary user's has no capabilities.
    """
    if pid is None or not (outside(pid) or _differs(pid, "net")):
        return ()
    # --preserve-credentials: else it sets uid and groups, which such a namespace refuses
    user = ("--user", "--preserve-credentials") if outside(pid) else ()
    return ("nsenter", "--target", str(pid), *user, "--net", "--")


def outside(pid: int) -> bool:
    """Whether ``pid`` is in another user namespace than this process. Raises: TestbedError if it is gone."""
    return _differs(pid, "user")


def _differs(pid: int, namespace: str) -> bool:
    try:  # of this thread: others of its process may be elsewhere
        return not os.path.samefile(f"/proc/thread-self/ns/{namespace}", f"/proc/{pid}/ns/{namespace}")
    except FileNotFoundError as error:
        raise TestbedError(
            f"process {pid}, which kept the run's network, is gone; `e2c-dl destroy` removes the rest"
        ) from error
