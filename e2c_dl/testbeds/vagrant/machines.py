"""What vagrant and libvirt are asked: machines brought up, found by the run's id in their names, destroyed.

vagrant knows the machines that it finished making; libvirt all, also those that a killed vagrant had just begun.
"""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

from e2c_dl.errors import TestbedError
from e2c_dl.testbeds.e2clab.vagrant_up import MACHINES
from e2c_dl.testbeds.followed import followed
from e2c_dl.testbeds.vagrant.planned import Plan, prefix

URI_VARIABLE, URI = "LIBVIRT_DEFAULT_URI", "qemu:///system"
"""Which libvirt vagrant-libvirt asks; virsh has another default for ordinary users."""

VAGRANTFILE = "Vagrantfile"
PLUGIN = "vagrant-libvirt"
_ASKED_S, _DESTROYED_S = 60.0, 300.0
_LAST_LINES = 8
_SAYING_NOTHING = "ended with status"


def bring_up(plan: Plan, folder: Path, environ: Mapping[str, str], tell: Callable[[str], None]) -> dict[str, Any]:
    """Host -> address, port, user and key of its machine, up. Raises: TestbedError: vagrant failed, and why.

    ``tell`` hears of each machine as it gets on. Whatever stays after an error is for ``destroy``.
    """
    (folder / MACHINES).unlink(missing_ok=True)
    process = subprocess.Popen(
        [sys.executable, "-m", "e2c_dl.testbeds.e2clab.vagrant_up"],
        cwd=folder,
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        env={**os.environ, **environ},
        start_new_session=True,  # Ctrl-C is for this process, which then ends it
    )
    assert process.stdin is not None
    process.stdin.write(json.dumps(plan.configuration()).encode())
    process.stdin.close()
    last = followed(process, process.stdout, lambda line: _tell(line, tell), _LAST_LINES)
    if process.returncode:
        raise TestbedError(f"vagrant could not bring the machines up: {_why(last)}")
    found: dict[str, Any] = json.loads((folder / MACHINES).read_text(encoding="utf-8"))
    return found


def _tell(line: str, tell: Callable[[str], None]) -> None:
    if line.startswith("==> ") and ":  -- " not in line:  # of a machine; the rest are settings, and what commands print
        tell(line.removeprefix("==> "))


def _why(last: Sequence[str]) -> str:
    said = [line for line in last if _SAYING_NOTHING not in line and not line.startswith(("Bringing machine", "==> "))]
    return " ".join(said or last)[-300:] or "it said nothing"


def destroy(run_id: str, folder: Path) -> list[str]:
    """No machine and no network of the run is left; what there was, one line each.

    Raises: TestbedError: something stays, or cannot be asked for.
    """
    made = sorted(path.parts[-3] for path in folder.glob(".vagrant/machines/*/*/id"))  # as vagrant keeps them
    if (folder / VAGRANTFILE).exists():
        done = _ran(["vagrant", "destroy", "--force"], folder, _DESTROYED_S)
        if done.returncode and made:
            raise TestbedError(f"vagrant destroy: {', '.join(made)}: {_why(_lines(done))}")
    if shutil.which("virsh") is None and not made:
        return []  # without libvirt's programs nothing was ever made
    removed = [f"virtual machine {name}" for name in made]
    return [*removed, *_swept(run_id, needed=bool(made))]


def _swept(run_id: str, *, needed: bool) -> list[str]:
    """What vagrant left in libvirt, removed. ``needed``: libvirt must answer. Raises: TestbedError."""
    if (problem := libvirt_problem()) is not None:
        if needed:
            raise TestbedError(f"libvirt: {problem}")
        return []  # it never answered: vagrant makes nothing without it
    removed = []
    for name in _named(run_id, "list"):
        virsh("destroy", name)  # fails of one that is off
        _checked("undefine", name, "--remove-all-storage", "--nvram")
        removed.append(f"virtual machine {name}")
    for name in _named(run_id, "net-list"):
        virsh("net-destroy", name)
        virsh("net-undefine", name)  # fails of one that is gone with the line before
        removed.append(f"network {name}")
    if left := [*_named(run_id, "list"), *_named(run_id, "net-list")]:
        raise TestbedError(f"libvirt still has {', '.join(left)}; `virsh -c {_uri()} list --all` shows them")
    return removed


def leftovers(run_id: str) -> tuple[str, ...]:
    """What libvirt has of the run. Raises: TestbedError: it does not answer."""
    return (*_named(run_id, "list"), *_named(run_id, "net-list"))


def libvirt_problem() -> str | None:
    """Why libvirt cannot be asked; None if it can."""
    if shutil.which("virsh") is None:
        return "there is no virsh"
    done = virsh("uri")
    return None if done.returncode == 0 else _why(_lines(done))


def vagrant_problem() -> str | None:
    """Why vagrant can bring nothing up by libvirt; None if it can."""
    if shutil.which("vagrant") is None:
        return "there is no vagrant"
    done = _ran(["vagrant", "plugin", "list"], Path.home(), _ASKED_S)
    if done.returncode:
        return _why(_lines(done))
    return None if PLUGIN in done.stdout else f"it has no plugin {PLUGIN}"


def _named(run_id: str, listing: str) -> list[str]:
    """Names of machines (``list``) or networks (``net-list``) of the run. Raises: TestbedError."""
    names = _checked(listing, "--all", "--name").stdout.split()
    own = prefix(run_id)
    return [name for name in names if name == own or name.startswith(f"{own}-")]


def _checked(*words: str) -> subprocess.CompletedProcess[str]:
    done = virsh(*words)
    if done.returncode:
        raise TestbedError(f"virsh {' '.join(words)}: {_why(_lines(done))}")
    return done


def virsh(*words: str) -> subprocess.CompletedProcess[str]:
    """What virsh answers to ``words``, with its status. Raises: TestbedError: it does not end."""
    return _ran(["virsh", "--quiet", "--connect", _uri(), *words], Path("/"), _ASKED_S)


def _uri() -> str:
    return os.environ.get(URI_VARIABLE) or URI


def _ran(argv: Sequence[str], folder: Path, timeout_s: float) -> subprocess.CompletedProcess[str]:
    try:
        return subprocess.run(
            argv, cwd=folder, stdin=subprocess.DEVNULL, capture_output=True, text=True, timeout=timeout_s, check=False,
        )  # fmt: skip
    except subprocess.TimeoutExpired as error:
        raise TestbedError(f"{' '.join(argv[:3])} did not end within {timeout_s:g} s; is libvirtd well?") from error
    except FileNotFoundError as error:
        raise TestbedError(f"there is no {argv[0]} on this machine; `make setup-vagrant`") from error


def _lines(done: subprocess.CompletedProcess[str]) -> list[str]:
    return [line.strip() for line in f"{done.stdout}\n{done.stderr}".splitlines() if line.strip()][-_LAST_LINES:]
