"""Where wheels of Horovod are kept, and which of them an interpreter needs.

::

    CACHE/horovod/0.28.1/torch-2.13.0+cpu/cp311-linux_x86_64/horovod-0.28.1-cp311-cp311-linux_x86_64.whl

A wheel's name does not say for which torch it was built, and with another it does not load: the folder says it. The
cache is the user's, outside of any checkout ($XDG_CACHE_HOME/e2c_dl, else ~/.cache/e2c_dl).
"""

from __future__ import annotations

import json
import re
import subprocess
import sys
from dataclasses import dataclass
from pathlib import Path

import platformdirs

from e2c_dl.errors import InputError
from e2c_dl.testbeds.horovod.recipe import BUILDS_WITH, VERSION

_ASKED = """
import importlib.metadata as metadata, json, sys, sysconfig
def version(name):
    try:
        return metadata.version(name)
    except metadata.PackageNotFoundError:
        return None
print(json.dumps({
    "python": "cp%d%d" % sys.version_info[:2],
    "platform": sysconfig.get_platform().replace("-", "_").replace(".", "_"),
    "versions": {name: version(name) for name in sys.argv[1:]},
}))
"""
_SAFE = re.compile(r"[A-Za-z0-9_.+]+")
_ANSWER_S = 60.0


@dataclass(frozen=True, kw_only=True)
class Interpreter:
    """A Python on this machine, and what it has of what Horovod is built with."""

    path: str
    python: str  # cp311
    platform: str  # linux_x86_64
    torch: str | None  # 2.13.0+cpu
    missing: tuple[str, ...]  # packages that building needs

    @property
    def key(self) -> Path:
        """Folder of its wheel, in the cache. Raises: InputError if it has no torch."""
        if self.torch is None or not _SAFE.fullmatch(self.torch):
            raise InputError(f"{self.path}: no torch there; install it first: Horovod is built for one version of it")
        return Path("horovod", VERSION, f"torch-{self.torch}", f"{self.python}-{self.platform}")


def interpreter(path: str = sys.executable) -> Interpreter:
    """The Python at ``path``, asked. Raises: InputError if it does not answer."""
    try:
        done = subprocess.run(
            [path, "-c", _ASKED, *BUILDS_WITH], capture_output=True, text=True, check=False, timeout=_ANSWER_S
        )
        told = json.loads(done.stdout)
    except (OSError, ValueError, subprocess.TimeoutExpired) as error:
        raise InputError(f"{path}: does not answer as a Python does; name an interpreter with --python") from error
    versions = told["versions"]
    return Interpreter(
        path=path,
        python=told["python"],
        platform=told["platform"],
        torch=versions["torch"],
        missing=tuple(name for name in BUILDS_WITH if versions[name] is None),
    )


def default_cache() -> Path:
    """The user's own cache of this program."""
    return Path(platformdirs.user_cache_dir("e2c_dl"))


def find(of: Interpreter, cache: Path) -> Path | None:
    """The wheel for ``of`` in ``cache``; None: none was built yet. Raises: InputError if it has no torch."""
    return next(iter(sorted((cache / of.key).glob("horovod-*.whl"))), None)


def existing(of: Interpreter, cache: Path) -> Path:
    """The wheel for ``of`` in ``cache``. Raises: InputError if there is none, or no torch."""
    found = find(of, cache)
    if found is None:
        raise InputError(
            f"{cache / of.key}: no wheel of Horovod for torch {of.torch}; "
            "`e2c-dl horovod build` makes one (6 minutes of CPU)"
        )
    return found
