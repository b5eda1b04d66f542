"""Who ends a benchmark ends all that it has launched, and its folders."""

from __future__ import annotations

import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

BENCHMARK = """
import sys, tempfile
from benchmarks.launched import end_in_order, launched
rank = "import os, signal, sys, time; signal.signal(signal.SIGTERM, signal.SIG_IGN); " \\
       "sys.stderr.write('x'); open(sys.argv[1], 'w').write(str(os.getpid())); time.sleep(600)"
launcher = "import subprocess, sys; " \\
           "subprocess.Popen([sys.executable, '-c', *sys.argv[1:]], start_new_session=True).wait()"
end_in_order()
with tempfile.TemporaryDirectory(dir=sys.argv[1]) as folder:
    launched([sys.executable, "-c", launcher, rank, sys.argv[1] + "/pid"], {})
"""


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT])
def test_no_rank_and_no_folder_is_left(tmp_path: Path, repository: Path, number: signal.Signals) -> None:
    told = tmp_path / "pid"
    with subprocess.Popen(
        [sys.executable, "-c", BENCHMARK, str(tmp_path)], cwd=repository, stderr=subprocess.PIPE
    ) as process:
        while not (told.exists() and told.read_text()):
            assert process.poll() is None
        process.send_signal(number)
    assert process.returncode != 0
    rank = int(told.read_text())
    while Path(f"/proc/{rank}").exists():  # until the kernel is done with it; else this runs into its time limit
        time.sleep(0.01)
    assert list(tmp_path.iterdir()) == [told]
