"""The files that make a set of namespaces look like a machine of its own: rendered here, bound into place by its init.

::

    RUN/                       the run's directory in the registry, 0700
      key key.pub              the way in; hostkey hostkey.pub: what the hosts show
      sshd_config core.sh
      tmp/                       temporary files of all hosts: what a killed program left there goes with the run
      hosts/NAME/
        etc/ var/              take the place of the machine's /etc/hosts, /etc/passwd, ..., /var/log/wtmp, ...
        run/ sys/              become the host's /run and /sys
        work/                  its run_dir
        init.sh                its pid 1
        fstab sysctl network   what that mounts, sets, and tells `ip -batch`
        root layers paths own  how it builds a root of its own: ``private_root``
        home/                  its user's home where it has no such root
        init.log sshd.log

/run is the host's own, so that its sshd has its /run/sshd and no service of the machine is mistaken for one of the
host. RUN stays visible in it. Where a host cannot have a root of its own, its files are the machine's, but for these.
"""

from __future__ import annotations

import os
import pwd
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from e2c_dl.testbeds.this_machine.addresses import DATA_DEVICE, MANAGEMENT_DEVICE, mac
from e2c_dl.testbeds.this_machine.private_root import ROOT, PrivateRoot, escaped

TEMPORARY = "tmp"
_RUN = Path("/run")
_LOGIN_RECORDS = (
    "/var/log/wtmp",
    "/var/log/btmp",
    "/var/log/lastlog",
)  # sshd writes there; the machine's are not ours

_Mount = tuple[object, object, str, str]  # what, where, of which type, with which options

_SSHD = """\
Port 22
AddressFamily inet
HostKey "{run}/hostkey"
AuthorizedKeysFile "{run}/key.pub"
AuthenticationMethods publickey
PermitRootLogin prohibit-password
PasswordAuthentication no
KbdInteractiveAuthentication no
UsePAM no
StrictModes no
UseDNS no
PidFile none
PrintMotd no
PrintLastLog no
X11Forwarding no
MaxStartups 200:30:400
MaxSessions 100
Subsystem sftp internal-sftp
SetEnv {environ}
"""

# files alone: DNS times out in there, and nss-systemd reports root as locked
_NSSWITCH = "".join(f"{table}: files\n" for table in ("passwd", "group", "shadow", "hosts", "protocols", "services"))


@dataclass(frozen=True, kw_only=True)
class HostFiles:
    """What one host's files say, and where they are."""

    name: str
    run: Path  # the run's directory
    management: str  # address/prefix
    data: str | None  # address/prefix of a data device that is there from the start; None: it is given later
    neighbours: Mapping[str, str]  # every host of the run, this one among them -> data address
    sysctl: Mapping[str, str]  # path under /proc/sys -> value
    root: bool = True  # made by root; else by an ordinary user, who has no other uid or gid than his own to give
    apart: PrivateRoot | None = None  # None: its files are the machine's, but for those that are bound over them

    @property
    def directory(self) -> Path:
        return self.run / "hosts" / self.name

    def home(self, user: pwd.struct_passwd) -> Path:
        """Where ``user`` lives on this host."""
        return self.directory / "home" if self.apart is None else Path(user.pw_dir)

    @property
    def work(self) -> Path:
        return self.directory / "work"

    def write(self, user: pwd.struct_passwd) -> None:
        """Make the host's directory. ``user`` is who logs in. Raises: OSError."""
        for part in ("etc", "var", "run/sshd", "sys", "work", *([] if self.apart else ["home"])):
            (self.directory / part).mkdir(parents=True, mode=0o755)
        for name, text in self.texts(user).items():
            (self.directory / name).write_text(text, encoding="utf-8")
        (self.directory / "etc/shadow").chmod(0o600)
        for record in filter(os.path.exists, _LOGIN_RECORDS):
            (self.directory / "var" / Path(record).name).touch()
        for resolved in map(os.path.realpath, self.bound()):
            if Path(resolved).is_relative_to(_RUN):  # such as a resolv.conf of systemd: /run will be another one
                place = self._in_run(Path(resolved))
                place.parent.mkdir(parents=True, exist_ok=True)
                place.touch()
        if self.run.is_relative_to(_RUN):
            self._in_run(self.run).mkdir(parents=True)
        (self.directory / "fstab").write_text(self.fstab(), encoding="utf-8")
        if self.apart is not None:
            for name, text in self.apart.texts(self.directory, self._above_layers()).items():
                (self.directory / name).write_text(text, encoding="utf-8", errors="surrogateescape")

    def texts(self, user: pwd.struct_passwd) -> dict[str, str]:
        """File name under ``directory`` -> content, of all that does not depend on the machine's own files."""
        etc = {
            "hostname": f"{self.name}\n",
            "hosts": "127.0.0.1 localhost\n" + "".join(f"{a} {name}\n" for name, a in self.neighbours.items()),
            "resolv.conf": "",  # no name servers: a look-up that /etc/hosts cannot answer fails at once
            "passwd": passwd(Path("/etc/passwd").read_text(encoding="utf-8"), user, self.home(user)),
            "shadow": f"{user.pw_name}:*:1:0:99999:7:::\n",  # "*": no password, and not locked, as "!" would be
            "group": group(Path("/etc/group").read_text(encoding="utf-8"), with_tty=self.root),
            "nsswitch.conf": _NSSWITCH,
        }
        settings = "".join(f"{key} {value}\n" for key, value in self.sysctl.items())
        return {f"etc/{name}": text for name, text in etc.items()} | {"sysctl": settings, "network": self.network()}

    def network(self) -> str:
        """Lines for `ip -batch`, inside the host."""
        lines = ["link set lo up", *_configured(MANAGEMENT_DEVICE, self.management)]
        if self.data is not None:
            lines += _configured(DATA_DEVICE, self.data)
        return "".join(f"{line}\n" for line in lines)

    def bound(self) -> dict[str, Path]:
        """The machine's path -> the host's file that covers it; a path that the machine lacks is left out."""
        names = ("hostname", "hosts", "resolv.conf", "passwd", "shadow", "group", "nsswitch.conf")
        etc = {f"/etc/{name}": self.directory / "etc" / name for name in names}
        records = {record: self.directory / "var" / Path(record).name for record in _LOGIN_RECORDS}
        return {path: file for path, file in (etc | records).items() if os.path.exists(path)}

    def fstab(self) -> str:
        """What init mounts first, in this order; all of it, where the host has no root of its own.

        /proc comes last: it hides what mount itself goes by.
        """
        own, source = self.directory, f"e2cdl-{self.run.name}"
        lines: list[_Mount] = []
        if self.run.is_relative_to(_RUN):
            lines.append((self.run, self._in_run(self.run), "none", "bind"))
        lines += [
            (source, own / "sys", "sysfs", "nosuid,nodev,noexec"),
            ("/sys/fs/cgroup", own / "sys/fs/cgroup", "none", "rbind"),
        ]
        if self.apart is None:
            bound: list[_Mount] = [
                (file, os.path.realpath(path), "none", "bind") for path, file in self.bound().items()
            ]
            lines = [*bound, *lines, *self._places(Path("/"))]
        return _table(lines)

    def _above_layers(self) -> str:
        """What init mounts last where the host has a root of its own: all that is no layer of that."""
        dev = ("/dev", ROOT / "dev", "none", "rbind,X-mount.mkdir")
        lines: list[_Mount] = [dev, *self._places(ROOT)]
        if not self.run.is_relative_to(_RUN):
            lines.append((self.run, ROOT / self.run.relative_to("/"), "none", "bind,X-mount.mkdir"))
        records = [record for record in _LOGIN_RECORDS if os.path.exists(record)]
        lines += [(self.directory / "var" / Path(each).name, ROOT / each[1:], "none", "bind") for each in records]
        return _table(lines)

    def _places(self, root: Path) -> list[_Mount]:
        """/run, /dev, /sys and /proc of the host, below ``root``."""
        own, source = self.directory, f"e2cdl-{self.run.name}"
        made = ",X-mount.mkdir" if self.apart else ""
        tty = "gid=5,mode=620" if self.root else "mode=600"  # tty's gid; an ordinary user's namespace maps but his own
        return [
            (own / "run", root / "run", "none", "rbind" + made),
            (source, root / "dev/pts", "devpts", tty + ",ptmxmode=666"),
            (source, root / "dev/shm", "tmpfs", "nosuid,nodev,mode=1777"),  # names in it hold pids, which repeat
            (own / "sys", root / "sys", "none", "rbind" + made),
            (source, root / "proc", "proc", "nosuid,nodev,noexec" + made),
        ]

    def _in_run(self, path: Path) -> Path:
        return self.directory / "run" / path.relative_to(_RUN)


def sshd_config(run: Path, environ: Mapping[str, str]) -> str:
    """The configuration of every host's sshd, but for the address it listens on; commands get ``environ``."""
    return _SSHD.format(run=run, environ=" ".join(f'"{key}={value}"' for key, value in environ.items()))


def passwd(machine: str, user: pwd.struct_passwd, home: Path) -> str:
    """The machine's passwd with ``user`` at ``home`` and a plain shell, whose start is quick."""
    own = f"{user.pw_name}:x:{user.pw_uid}:{user.pw_gid}:{user.pw_gecos}:{home}:/bin/sh"
    # kept: files show their owners by name
    others = [line for line in machine.splitlines() if line.partition(":")[0] != user.pw_name]
    return "\n".join([own, *others]) + "\n"


def group(machine: str, *, with_tty: bool) -> str:
    """The machine's groups; without ``tty``, sshd does not try to give terminals to it, which only root can."""
    lines = [line for line in machine.splitlines() if with_tty or line.partition(":")[0] != "tty"]
    return "\n".join(lines) + "\n"


def _configured(device: str, address: str) -> list[str]:
    hardware = mac(address.partition("/")[0])
    return [f"link set {device} address {hardware}", f"addr add {address} dev {device}", f"link set {device} up"]


def _table(mounts: Sequence[_Mount]) -> str:
    """``mounts`` as fstab(5) has them."""
    return "".join(" ".join([*map(escaped, line), "0", "0"]) + "\n" for line in mounts)
