"""The lock of an archive, and the processes that one which holds it begins."""

from __future__ import annotations

import subprocess
import sys
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

from e2c_dl.archive.lock import held

FORKS = """
import os, sys
from pathlib import Path
from e2c_dl.archive.lock import held

with held(Path(sys.argv[1])):
    if os.fork() == 0:
        with open("/proc/self/status", "rb", buffering=0) as own:  # it has the number that the lock had
            if os.fork() == 0:
                os._exit(0 if own.read(5) == b"Name:" else 1)
            os._exit(os.waitstatus_to_exitcode(os.wait()[1]))
    status = os.waitstatus_to_exitcode(os.wait()[1])
sys.exit(status)
"""

UNWINDS = """
import os, sys
from pathlib import Path
from e2c_dl.archive.lock import held

try:
    with held(Path(sys.argv[1])):
        if os.fork() == 0:
            own = open("/proc/self/status", "rb", buffering=0)
            raise InterruptedError
        status = os.waitstatus_to_exitcode(os.wait()[1])
except InterruptedError:
    os._exit(0 if own.read(5) == b"Name:" else 1)
sys.exit(status)
"""


def test_a_fork_of_a_fork_keeps_what_it_has(tmp_path: Path) -> None:
    for script in (FORKS, UNWINDS):
        done = subprocess.run([sys.executable, "-c", script, tmp_path], capture_output=True, text=True, check=False)
        assert done.returncode == 0, done.stderr


WAITS = """
import sys
from pathlib import Path
from e2c_dl.archive.lock import held
print(flush=True)
with held(Path(sys.argv[1]), waits=True):
    print("its turn", flush=True)
"""


def test_who_amends_waits_for_who_writes_but_not_for_itself(tmp_path: Path) -> None:
    with subprocess.Popen([sys.executable, "-c", WAITS, tmp_path], stdout=subprocess.PIPE, text=True) as other:
        assert other.stdout is not None
        with ThreadPoolExecutor(1) as thread:
            with held(tmp_path):
                other.stdout.readline()
                said = thread.submit(other.stdout.readline)
                with held(tmp_path, waits=True):
                    assert not said.done()
            assert said.result() == "its turn\n"
