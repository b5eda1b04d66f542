"""A wheel of the tree that is running, for hosts that do not share its file system."""

from __future__ import annotations

import os
import subprocess
import sys
import tempfile
from functools import lru_cache
from pathlib import Path

import e2c_dl
from e2c_dl.errors import TestbedError

WHEEL_VARIABLE = "E2CDL_WHEEL"


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
    argv = [sys.executable, "-m", "pip", "wheel", "--quiet", "--no-deps", "--wheel-dir", into, str(tree)]
    done = subprocess.run(argv, capture_output=True, text=True, check=False)
    if done.returncode:
        raise TestbedError(
            f"building a wheel of {tree} failed: {(done.stderr.strip().splitlines() or ['no output'])[-1]}"
        )
    return next(Path(into).glob("*.whl"))
