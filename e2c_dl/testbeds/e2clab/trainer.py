"""The Trainer service's work on its hosts: install e2c_dl, and publish what a worker must know as ``_self``.

Kept out of the service file, which E2Clab wants to import as a plugin by path.
"""

from __future__ import annotations

import atexit
import hashlib
import importlib.metadata
import os
import re
import shutil
import subprocess
import sys
import tempfile
import zipfile
from collections.abc import Iterable
from functools import lru_cache
from pathlib import Path
from typing import Any

import enoslib as en

import e2c_dl
from e2c_dl import __version__
from e2c_dl.errors import TestbedError
from e2c_dl.resources import constraints_file, playbooks_dir
from e2c_dl.testbeds.base import VENV
from e2c_dl.testbeds.e2clab import training_address
from e2c_dl.testbeds.e2clab.hosts import EXTRA

_VERSION = "import importlib.metadata as m; print(m.version('e2c_dl'))"
RUN_DIR = "/tmp/e2c_dl_run"  # under plain E2Clab, where no run has an id
WHEEL_VARIABLE = "E2CDL_WHEEL"
WHEELHOUSE_VARIABLE = "E2CDL_WHEELHOUSE"
"""Names a folder of wheels, `pip download`ed, from which hosts without internet install; they ask no package server."""


def in_order(hosts: Iterable[Any]) -> list[Any]:
    """``hosts`` by address, numbers by value: E2Clab hands out a set, whose order changes from run to run."""
    return sorted(hosts, key=lambda host: _by_number(host.address))


def install(hosts: list[Any]) -> None:
    """Put this tree and what it needs on ``hosts``; hosts that have it already are left alone.

    Hosts that are namespaces of this machine run the interpreter that runs this: it is looked at here, once, as asking
    each of them over SSH, service by service, takes longer than all else that is done for a service.
    Raises: enoslib.errors.EnosFailedHostsError if a host could not be set up, TestbedError if no wheel can be built.
    """
    if all(_python_of(host) == host.extra.get("ansible_python_interpreter") == sys.executable for host in hosts):
        check_installed()
        return
    for host in hosts:
        host.set_extra(e2cdl_python=_python_of(host))
    shared = all(_python_of(host) == sys.executable for host in hosts)  # local hosts run this very installation
    wheel = None if shared else wheel_of_this_tree()  # building one takes a while
    variables = {
        "e2cdl_version": __version__,
        "e2cdl_venv": VENV,
        "e2cdl_shared": shared,
        "e2cdl_wheel": "" if wheel is None else str(wheel),
        "e2cdl_tree": "" if wheel is None else tree_of(wheel),
        "e2cdl_constraints": str(constraints_file()),
        "e2cdl_wheelhouse": wheelhouse(),
    }
    en.run_ansible([str(playbooks_dir() / "install.yaml")], roles=en.Roles({"all": hosts}), extra_vars=variables)


def wheelhouse() -> str:
    """The folder that E2CDL_WHEELHOUSE names, absolute; empty: none is. Raises: TestbedError: there are no wheels."""
    given = os.environ.get(WHEELHOUSE_VARIABLE)
    if given and not any(Path(given).glob("*.whl")):
        raise TestbedError(
            f"{WHEELHOUSE_VARIABLE}={given}: no folder of wheels; pip download --dest {given} e2c_dl[train] fills one"
        )
    return os.path.abspath(given) if given else ""


@lru_cache(maxsize=1)
def check_installed() -> None:
    """Raises: TestbedError if this interpreter, started elsewhere, has no e2c_dl of this version."""
    environ = {"PATH": os.defpath, "LANG": "C.UTF-8"}  # as on a host: nothing of this process's
    done = subprocess.run(
        [sys.executable, "-c", _VERSION],  # -c imports from the working directory first: not from a checkout
        cwd="/",
        env=environ,
        capture_output=True,
        text=True,
        check=False,
    )
    if done.stdout.strip() != __version__:
        there = done.stdout.strip() or "none"
        raise TestbedError(
            f"{sys.executable}: hosts need e2c_dl {__version__} in it, it has {there}; pip install it, or `make setup`"
        )


def _python_of(host: Any) -> str:
    return str(host.extra[EXTRA]["python"]) if EXTRA in host.extra else f"{VENV}/bin/python"


def published(host: Any) -> dict[str, Any]:
    """What workflow.yaml finds under ``_self`` of ``host``, beside what E2Clab publishes itself."""
    if EXTRA in host.extra:
        told: dict[str, Any] = dict(host.extra[EXTRA])
    else:
        device, address = training_address.of_host(host)
        told = {
            "node": str(host.address), "address": address,  # a number: who trains need not know names
            "data_address": address, "data_device": device, "python": f"{VENV}/bin/python", "run_dir": RUN_DIR,
            "own_emulation": True, "versions": _versions(),
        }  # fmt: skip
    return {"address": str(host.address), **told}


def _versions() -> dict[str, str]:
    """What deployed it, on the controller: hosts know only what they have."""
    return {name: importlib.metadata.version(name) for name in ("e2clab", "enoslib", "ansible-core")}


def _by_number(address: str) -> list[tuple[bool, int, str]]:
    """Of a name or an address: its numbers as such, and before its words, as some hosts may have names, others not."""
    parts = [part for part in re.split(r"(\d+)", address) if part]
    return [(not part.isdigit(), int(part) if part.isdigit() else 0, part) for part in parts]


@lru_cache(maxsize=1)
def wheel_of_this_tree() -> Path:
    """Path of a wheel of this version: the one that E2CDL_WHEEL names, else built from the checkout that is running.

    Raises: TestbedError if there is neither, or the build fails.
    """
    given = os.environ.get(WHEEL_VARIABLE)
    if given:
        if not Path(given).is_file():
            raise TestbedError(f"{WHEEL_VARIABLE}={given}: no such file; name a wheel of e2c_dl")
        return Path(given).resolve()
    tree = Path(e2c_dl.__file__).resolve().parent.parent
    if not (tree / "setup.cfg").is_file():
        raise TestbedError(f"cannot build a wheel: {tree} is no checkout of e2c_dl; set {WHEEL_VARIABLE} to a wheel")
    into = tempfile.mkdtemp(prefix="e2cdl-wheel-")
    atexit.register(_remove, into, os.getpid())
    # --no-deps: what it needs is pinned by the constraints file
    argv = [sys.executable, "-m", "pip", "wheel", "--quiet", "--no-deps", "--wheel-dir", into, str(tree)]
    done = subprocess.run(argv, capture_output=True, text=True, check=False)
    if done.returncode:
        raise TestbedError(
            f"building a wheel of {tree} failed: {(done.stderr.strip().splitlines() or ['no output'])[-1]}"
        )
    return next(Path(into).glob("*.whl"))


def tree_of(wheel: Path) -> str:
    """A word for what ``wheel`` holds, whenever it was built: two trees of one version have another.

    Raises: TestbedError if it is no wheel.
    """
    try:
        with zipfile.ZipFile(wheel) as files:
            (record,) = (name for name in files.namelist() if name.endswith(".dist-info/RECORD"))  # hashes of all files
            return hashlib.sha256(files.read(record)).hexdigest()[:16]
    except (OSError, ValueError, zipfile.BadZipFile) as error:
        raise TestbedError(f"{wheel}: is no wheel: {error}; name one of e2c_dl by {WHEEL_VARIABLE}") from error


def _remove(folder: str, owner: int) -> None:
    if os.getpid() == owner:  # not as a process ends that Ansible forked
        shutil.rmtree(folder, ignore_errors=True)
