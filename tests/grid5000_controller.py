"""A machine of Grid'5000 to deploy from, by a name such as fe.rennes.grid5000.fr, and nodes that are namespaces here.

::

    unshare --uts --mount ── its own hostname and /etc/hosts ── its own /root: keys, ~/.python-grid5000.yaml ── command
                             with the names of all nodes

Whatever is done in there, it ends with the command; network and processes are this machine's.
"""

from __future__ import annotations

import shlex
import shutil
import subprocess
import sys
import zipfile
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path

import pytest
from grid5000_api import Platform
from ordinary_user import covered, needed
from static_hosts import machines

from e2c_dl.testbeds.base import VENV, Access
from e2c_dl.testbeds.this_machine import private_root

NAME = "fe.rennes.grid5000.fr"
GRANTED = "/run/sudo-g5k"
_SUDO = f"""\
#!/bin/sh
# As on Grid'5000, but for where it writes: whoever is let in here is known already.
exec cat >>{GRANTED}
"""


@contextmanager
def nodes(count: int, state: Path) -> Iterator[tuple[Access, ...]]:
    """``count`` nodes that answer over SSH as root, each with a /tmp, /root and /opt of its own and a ``sudo-g5k``.

    This very installation is there at the place that others are installed to.
    """
    if why := private_root.problem():
        pytest.skip(f"nodes need files of their own: {why}")
    with machines(count, state) as up:
        for access in up:
            inside = ["nsenter", "--target", str(access.netns_pid), "--mount", "--pid"]
            put = (
                f"cat >/usr/local/bin/sudo-g5k && chmod +x /usr/local/bin/sudo-g5k && : >{GRANTED}"
                f" && ln -s {shlex.quote(sys.prefix)} {VENV}"
            )
            subprocess.run([*inside, "sh", "-ec", put], input=_SUDO, text=True, check=True)
        yield up


def granted(access: Access) -> str:
    """What ``sudo-g5k`` was given there."""
    inside = ["nsenter", "--target", str(access.netns_pid), "--mount", "--pid"]
    return subprocess.run([*inside, "cat", GRANTED], capture_output=True, text=True, check=True).stdout


class Controller:
    """Where commands run: ``home`` is root's there."""

    def __init__(self, folder: Path, api: Platform, key: Path | None = None, name: str = NAME) -> None:
        self.home, self._hosts, self._name = folder / "home", folder / "hosts", name
        api.write_account(self.home)
        (self.home / ".ssh").mkdir(mode=0o700)
        if key is not None:  # else there are no hosts that anybody would go to
            shutil.copy(key, self.home / ".ssh/id_rsa")
            shutil.copy(f"{key}.pub", self.home / ".ssh/id_rsa.pub")
        self._hosts.write_text(f"127.0.0.1 localhost\n127.0.1.1 {name} {name.partition('.')[0]}\n{api.hosts()}")

    def argv(self, *command: str) -> list[str]:
        """Command line that runs ``command`` there; the process is the same from beginning to end."""
        home, hosts = shlex.quote(str(self.home)), shlex.quote(str(self._hosts))
        lines = [
            f"hostname {self._name}",
            f"mount --bind {hosts} /etc/hosts",
            *covered(Path("/root"), [place for place in needed() if Path("/root") in place.parents], Path("/mnt")),
            f"cp -a {home}/. /root/",  # the interpreter may be below /root
            'exec env HOME=/root "$@"',
        ]
        return ["unshare", "--uts", "--mount", "--propagation=slave", "sh", "-ec", "\n".join(lines), "sh", *command]


def ran(controller: Controller, argv: Sequence[str]) -> subprocess.CompletedProcess[str]:
    """``argv``, run there to its end."""
    return subprocess.run(controller.argv(*argv), capture_output=True, text=True, check=False, timeout=240)


def unused_wheel(folder: Path) -> Path:
    """What passes for a wheel where nodes have this program already, so that none need be built."""
    path = folder / "unused.whl"
    with zipfile.ZipFile(path, "w") as files:
        files.writestr("e2c_dl-0.dist-info/RECORD", "")
    return path
