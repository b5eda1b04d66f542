"""A bare Debian, or Ubuntu, of this machine's version: a root of its own in a folder, in which commands are run.

::

    debootstrap --> FOLDER --> mount, process (and network) namespaces of their own for each command, pivot_root
                     |           nothing of this machine's files is seen but /dev, and where pip looks for packages
                     `-- srv/e2c_dl: a clone of this tree, as committed

apt and pip go out as they do on this machine: by the same mirror, proxy, certificates and configuration. What they kept
here stays out. Mounts and processes end with the command.
"""

from __future__ import annotations

import os
import re
import shutil
import subprocess
from collections.abc import Sequence
from pathlib import Path

import click

from benchmarks.rooms import ROOT
from e2c_dl.testbeds.docker.debootstrap import apt_settings, this_machines

INCLUDED = ("git", "make", "python3", "ca-certificates")
"""What README.md takes for granted."""

CLONE = "/srv/e2c_dl"
_CERTIFICATES = Path("/etc/ssl/certs/ca-certificates.crt")
_HERE = re.compile(r"^(?:PIP_\w+|\w*_proxy|\w*_PROXY|SSL_CERT_FILE|TORCH_INDEX)$")
_APT_HERE = re.compile(r"^Acquire::(?:Check|http|Retries)\S* .*$", re.MULTILINE)
_LOCAL = re.compile(r"(?:file://)?(/[\w./+-]+)")
_ENTER = """\
set -eu
root=$1 network=$2 folders=$3 place=$4
shift 4
mount --bind "$root" "$root"
cd "$root"
mount -t proc proc proc
mount -t sysfs sysfs sys
mount --rbind /sys/fs/cgroup sys/fs/cgroup
mount --rbind /dev dev
for folder in $folders; do
    mkdir -p ".$folder"
    mount --rbind "$folder" ".$folder"
    mount -o remount,ro,bind ".$folder"
done
[ "$network" = yes ] || ip link set lo up
mkdir -p .outside
pivot_root . .outside
umount -l .outside
cd "$place"
exec "$@"
"""


def make(folder: Path) -> None:
    """Make the system, and a clone of this tree in it. Raises: ClickException if a program fails."""
    suite = this_machines()
    chosen = ["--variant=minbase", f"--include={','.join(INCLUDED)}"]
    made = ["debootstrap", *chosen, suite.codename, str(folder), *([suite.mirror] if suite.mirror else [])]
    _done(made, {**os.environ, **apt_settings(), "DEBIAN_FRONTEND": "noninteractive"})
    shutil.copy("/etc/resolv.conf", folder / "etc/resolv.conf")
    shutil.copy(_CERTIFICATES, f"{folder}{_CERTIFICATES}")
    apt = "\n".join(_APT_HERE.findall(_said("apt-config", "dump")))
    (folder / "etc/apt/apt.conf.d/90-as-outside").write_text(f"{apt}\n")
    settings = [line for line in _said("pip", "config", "list").splitlines() if line.startswith("global.")]
    pip = "\n".join(line.removeprefix("global.").replace("'", "").replace("\\n", " ") for line in settings)
    (folder / "etc/pip.conf").write_text(f"[global]\n{pip}\n")
    _done(["git", "clone", "--quiet", str(ROOT), f"{folder}{CLONE}"], dict(os.environ))


def run(folder: Path, *argv: str, network: bool) -> subprocess.CompletedProcess[str]:
    """``argv`` in the system in ``folder``; without ``network`` there is no way out of it."""
    own = {"HOME": "/root", "PATH": "/usr/sbin:/usr/bin:/sbin:/bin", "LANG": "C.UTF-8", "TERM": "dumb"}
    inherited = {name: value for name, value in os.environ.items() if _HERE.match(name)}
    apart = ["unshare", "--mount", "--pid", "--fork", "--kill-child=SIGKILL", "--propagation=private"]
    apart += [] if network else ["--net"]
    entered = [str(folder), "yes" if network else "no", " ".join(_of_pip()), CLONE]
    return subprocess.run(
        [*apart, "sh", "-c", _ENTER, "enter", *entered, *argv],
        env={**inherited, **own}, stdin=subprocess.DEVNULL, capture_output=True, text=True, check=False,
    )  # fmt: skip


def _of_pip() -> Sequence[str]:
    """Folders of this machine where pip is configured to look for packages."""
    told = _said("pip", "config", "list") + "\n".join(v for k, v in os.environ.items() if k.startswith("PIP_"))
    found = {Path(name) for name in _LOCAL.findall(told) if Path(name).is_dir()}
    return sorted({str(path.parent if path.name == "simple" else path) for path in found})  # an index's files: beside


def _said(*argv: str) -> str:
    """What a program prints; nothing where there is none."""
    if shutil.which(argv[0]) is None:
        return ""
    return subprocess.run(argv, capture_output=True, text=True, check=False).stdout


def _done(argv: Sequence[str], environment: dict[str, str]) -> None:
    done = subprocess.run(argv, env=environment, capture_output=True, text=True, check=False)
    if done.returncode:
        said = (done.stdout + done.stderr).strip().splitlines()[-5:]
        raise click.ClickException("\n".join([f"{argv[0]} failed:", *said]))
