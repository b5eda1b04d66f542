"""A wheel of the cache, put into an interpreter of this machine. Hosts get theirs from ``playbooks/horovod.yaml``."""

from __future__ import annotations

import subprocess
from pathlib import Path

from e2c_dl.errors import TestbedError
from e2c_dl.testbeds.horovod import recipe
from e2c_dl.testbeds.horovod.wheels import Interpreter

_VERSION = "import horovod, horovod.torch; print(horovod.__version__)"


def installed(of: Interpreter) -> bool:
    """Whether ``of`` has this version of Horovod, and it loads beside the torch that is there."""
    done = subprocess.run([of.path, "-c", _VERSION], capture_output=True, text=True, check=False)
    return done.returncode == 0 and done.stdout.strip() == recipe.VERSION


def install(of: Interpreter, wheel: Path) -> None:
    """Put ``wheel`` into ``of``, and nothing else: torch and the rest stay. Raises: TestbedError."""
    argv = [of.path, "-m", "pip", "install", "--quiet", "--no-deps", "--no-index", "--force-reinstall", str(wheel)]
    done = subprocess.run(argv, capture_output=True, text=True, check=False)
    if done.returncode or not installed(of):
        last = ((done.stderr or done.stdout).strip().splitlines() or ["it does not load"])[-1]
        raise TestbedError(f"{wheel} could not be installed into {of.path}: {last}")
