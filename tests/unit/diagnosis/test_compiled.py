"""Compiled loops where what was compiled cannot be kept."""

import os
import subprocess
import sys
from pathlib import Path

LOOP = """
import resource
import numpy as np
from e2c_dl.diagnosis.replay.compiled import FEW
from e2c_dl.diagnosis.replay.queue import _latest

resource.setrlimit(resource.RLIMIT_FSIZE, (1024, 1024))  # what a full disk does to what is kept
messages = FEW + 1
for _ in range(2):
    found = _latest(np.zeros(messages, dtype=np.int64), np.arange(messages, dtype=float))
    assert (found == np.arange(-1, messages - 1)).all()
"""


def test_a_full_disk_keeps_nothing_and_ends_nothing(tmp_path: Path) -> None:
    ran = subprocess.run(
        [sys.executable, "-c", LOOP],
        env={**os.environ, "NUMBA_CACHE_DIR": str(tmp_path)}, capture_output=True, text=True, check=False,
    )  # fmt: skip
    assert (ran.returncode, ran.stderr) == (0, "")
