"""The files that a host gets so that a program of the user's trains on it: values only.

::

    RUN_DIR/
      run.key                 the one key of the run's hosts: what they show each other, and what they let in
      bin/python python3      the interpreter that has torch and Horovod
      bin/horovodrun          Horovod's, over the network that training is to use, and ``ssh/ssh``
      bin/torchrun            torch's, told where the ranks meet
      ssh/ssh                 ssh with the run's key, to sshd on the run's port
      ssh/config known_hosts authorized sshd_config
      bootstrap -> ...        first on Python's path, where ranks are traced, or each has a GPU of its own
      traces/                 what its ranks on this host leave

A command line of a published workflow stays as it is: ``horovodrun -np 4 -H a:2,b:2 python main.py``. What it names
itself (``--network-interfaces``) holds.
"""

from __future__ import annotations

import shlex
import zlib
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from e2c_dl.testbeds.own_programs import GPU_VARIABLE, SENT_VARIABLE
from e2c_dl.testbeds.own_programs.containers import Container
from e2c_dl.trace import attaching

KEY = "run.key"  # as of every run directory: it is never packed
MASTER_PORT = 29500
BOOTSTRAP, TRACES = "bootstrap", "traces"  # in the run directory
_PATH = "PYTHONPATH"
_LAUNCHER = "e2c_dl.testbeds.own_programs.horovodrun"
_PATIENT = {"HOROVOD_GLOO_TIMEOUT_SECONDS": "600", "HOROVOD_START_TIMEOUT": "600"}
"""Horovod gives ranks 30 s to meet: on hosts that share processors, importing torch alone may take longer."""

_HOROVODRUN = """\
#!/bin/sh
# Over {device}, unless another interface is named: what Horovod finds by itself may not be the emulated network.
# What it found out of the hosts of another run, and would keep at home for an hour, may not be so any more.
{exports}PATH={path}:$PATH
export PATH
for word; do
    case $word in
        --network-interface*) exec {python} -m {launcher} --disable-cache "$@" ;;
    esac
done
exec {python} -m {launcher} --disable-cache {interface}"$@"
"""
_TORCHRUN = """\
#!/bin/sh
{exports}exec {python} -m torch.distributed.run --nnodes {nodes} --node_rank {rank} --nproc_per_node {slots} \\
    --master_addr {master} --master_port {port} --log-dir {logs} "$@"
"""
_PYTHON = """\
#!/bin/sh
{exports}exec {python} "$@"
"""
_SSH = """\
#!/bin/sh
# The first of several options of a kind holds: the run's own.
exec {ssh} -F {folder}/config ${{{sent}:+-o}} ${{{sent}:+"SendEnv=${sent}"}} "$@"
"""
_SSH_CONFIG = """\
Host *
    Port {port}
    User {user}
    IdentityFile {key}
    IdentitiesOnly yes
    BatchMode yes
    StrictHostKeyChecking yes
    UserKnownHostsFile {folder}/known_hosts
    GlobalKnownHostsFile none
    LogLevel ERROR
"""
_SSHD = """\
Port {port}
AddressFamily inet
HostKey {key}
AuthorizedKeysFile {folder}/authorized
AuthenticationMethods publickey
PermitRootLogin prohibit-password
PasswordAuthentication no
KbdInteractiveAuthentication no
AllowUsers {user}
AllowTcpForwarding no
AllowAgentForwarding no
X11Forwarding no
PermitUserRC no
UsePAM no
StrictModes no
UseDNS no
PrintMotd no
PidFile none
MaxStartups 200:30:400
MaxSessions 200
SetEnv {environ}
AcceptEnv *
ForceCommand {python} -I -m e2c_dl.testbeds.own_programs.entered {run_dir}
"""


@dataclass(frozen=True, kw_only=True)
class Member:
    """A host that trains: its name, and its address in the network that training uses."""

    name: str
    address: str
    layer: str = "all"


@dataclass(frozen=True, kw_only=True)
class Place:
    """What one host is told. ``members`` are all that train, in rank order, this one among them."""

    run_dir: str
    python: str
    device: str  # of the network that training uses
    address: str  # its own there
    members: tuple[Member, ...]
    port: int  # of the run's sshd, the same on all hosts
    slots: int = 1
    traced: bool = False
    gpu_of_slot: bool = False  # each rank sees one GPU alone
    is_ours: bool = False  # thrown away afterwards, if its files are its own; False: a machine of somebody's
    of_controller: Mapping[str, str]  # directories that logins search -> what they are on the controller's machine
    container: Container | None = None  # None: the host itself trains
    environ: Mapping[str, str]  # what every process of the run has, which `destroy` goes by

    @property
    def node_rank(self) -> int:
        return [member.address for member in self.members].index(self.address)

    @property
    def bin(self) -> str:
        return f"{self.run_dir}/bin"

    @property
    def exported(self) -> dict[str, str]:
        """What a program reads that is started without these wrappers; published as ``_self.environment``."""
        network = {"GLOO_SOCKET_IFNAME": self.device, "NCCL_SOCKET_IFNAME": self.device}
        cache = {"TORCHINDUCTOR_CACHE_DIR": f"{self.run_dir}/torchinductor"}  # else in /tmp, where it would stay
        return {**_PATIENT, **self.environ, **network, **cache, **self.at_start}

    @property
    def bootstraps(self) -> bool:
        """Whether Python processes of the program begin with something of ours."""
        return self.traced or self.gpu_of_slot

    @property
    def at_start(self) -> dict[str, str]:
        """What has a Python process that turns out to be a rank trace itself, or take its slot's GPU, where asked."""
        hosts = ((each.address, attaching.Placed(each.name, each.layer)) for each in self.members)
        trace = {attaching.TRACE: f"{self.run_dir}/{TRACES}", attaching.HOSTS: attaching.table(hosts)}
        return {
            **({_PATH: f"{self.run_dir}/{BOOTSTRAP}"} if self.bootstraps else {}),
            **(trace if self.traced else {}),
            **({GPU_VARIABLE: "slot"} if self.gpu_of_slot else {}),
        }

    def programs(self) -> dict[str, str]:
        """File below RUN_DIR/bin -> its text; to be made executable."""
        said = "".join(_export(name, value) for name, value in sorted(self.exported.items()))
        python, interface = shlex.quote(self.python), f"--network-interfaces {shlex.quote(self.device)} "
        if len(self.members) == 1:
            interface = ""  # ranks of one host meet over its loopback, and fail if another is named
        path = f"{shlex.quote(self.run_dir)}/ssh:{shlex.quote(self.bin)}"
        plain = _PYTHON.format(exports=said, python=python)
        return {
            "python": plain,
            "python3": plain,
            "horovodrun": _HOROVODRUN.format(
                exports=said, device=self.device, path=path, python=python, interface=interface, launcher=_LAUNCHER,
            ),
            "torchrun": _TORCHRUN.format(
                exports=said, python=python, nodes=len(self.members), rank=self.node_rank, slots=self.slots,
                master=self.members[0].address, port=MASTER_PORT, logs=shlex.quote(f"{self.run_dir}/torchrun"),
            ),
        }  # fmt: skip

    def ssh_files(self, public: str, user: str, ssh: str) -> dict[str, str]:
        """File below RUN_DIR/ssh -> its text. ``public``: the public half of the run's key, as ssh-keygen prints it."""
        folder, key = f"{self.run_dir}/ssh", f"{self.run_dir}/{KEY}"
        names = ",".join(dict.fromkeys(text for each in self.members for text in (each.name, each.address)))
        known = ",".join(f"[{name}]:{self.port}" for name in names.split(","))
        environ = " ".join(f'"{name}={value}"' for name, value in sorted(self.environ.items()))
        return {
            "ssh": _SSH.format(ssh=shlex.quote(ssh), folder=shlex.quote(folder), sent=SENT_VARIABLE),
            "config": _SSH_CONFIG.format(port=self.port, user=user, key=_quoted(key), folder=_quoted(folder)),
            "known_hosts": f"{known} {public}\n",
            "authorized": f"{public}\n",
            "sshd_config": _SSHD.format(
                port=self.port,
                key=_quoted(key),
                folder=_quoted(folder),
                user=user,
                environ=environ or "E2CDL_=1",
                python=shlex.quote(self.python),
                run_dir=shlex.quote(self.run_dir),
            ),
        }


def place_of(told: Mapping[str, object]) -> Place:
    """The Place that ``recorded`` wrote."""
    members = tuple(Member(**each) for each in told["members"])  # type: ignore[attr-defined]
    asked: Any = told["container"]
    container = None if asked is None else Container(**{**asked, "volumes": tuple(asked["volumes"])})
    return Place(**{**told, "members": members, "container": container})  # type: ignore[arg-type]


def recorded(place: Place) -> dict[str, object]:
    """``place`` as JSON carries it."""
    container = None if place.container is None else vars(place.container)
    members = [vars(each) for each in place.members]
    return {**vars(place), "members": members, "container": container, "environ": dict(place.environ)}


def port_of(run_id: str) -> int:
    """The port of a run's sshd, of 12000 below those that kernels give out: two runs on one host rarely share it."""
    return 20000 + zlib.crc32(run_id.encode()) % 12000


def _export(name: str, value: str) -> str:
    """A line of a script; what a program has on Python's path already stays there."""
    more = "${PYTHONPATH:+:$PYTHONPATH}" if name == _PATH else ""
    return f"export {name}={shlex.quote(value)}{more}\n"


def _quoted(path: str) -> str:
    return f'"{path}"' if " " in path else path
