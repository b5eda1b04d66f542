"""A traced command is started as a shell would start it, whoever began this process, and its end is seen."""

from __future__ import annotations

import os
import subprocess
import sys
import time

import pytest

from e2c_dl.tracing import launch

COMMAND = "import signal; print(int(signal.getsignal(signal.SIGCHLD)), flush=True); raise SystemExit(7)"
LAUNCHED = f"""
import os, signal, subprocess, sys
from e2c_dl.tracing import launch
signal.signal(signal.SIGCHLD, int(sys.argv[1]))
print(launch.run([sys.executable, "-c", {COMMAND!r}], os.environ), flush=True)
print(subprocess.run(["false"]).returncode)
"""


@pytest.mark.parametrize("of_children", ["0", "1"])  # by default; ignored, as by a parent that waits for none
def test_a_command_is_waited_for_and_hears_of_its_children_as_it_would_untraced(of_children: str) -> None:
    command = [sys.executable, "-c", LAUNCHED, of_children]
    done = subprocess.run(command, capture_output=True, text=True, timeout=30, check=True)
    assert done.stdout.split() == [of_children, "7", "1"]


READING = """
import os, sys
from e2c_dl.tracing import launch
own = os.open(os.devnull, os.O_RDONLY)
command = "import os, sys; print(os.read(int(sys.argv[1]), 9).decode(), os.path.exists('/proc/self/fd/' + sys.argv[2]))"
launch.run([sys.executable, "-c", command, sys.argv[1], str(own)], os.environ)
"""


def test_a_command_has_what_its_shell_left_open_and_nothing_of_this_process() -> None:
    reading, writing = os.pipe()  # as bash's <(echo lr: 0.1)
    os.write(writing, b"lr: 0.1")
    try:
        command = [sys.executable, "-c", READING, str(reading)]
        done = subprocess.run(command, capture_output=True, text=True, timeout=30, check=True, pass_fds=[reading])
    finally:
        os.close(reading)
        os.close(writing)
    assert done.stdout.split() == ["lr:", "0.1", "False"]


def test_a_process_that_has_ended_is_not_waited_for_though_its_parent_does_not_ask_how() -> None:
    ended = subprocess.Popen(["true"])  # a zombie from when it has ended, as under a container's first process
    try:
        os.waitid(os.P_PID, ended.pid, os.WEXITED | os.WNOWAIT)
        began_s = time.monotonic()
        assert launch.wait_for([ended.pid], 5.0) == ()
        assert time.monotonic() - began_s < 4.0
    finally:
        ended.wait()
    assert launch.wait_for([os.getpid()], 0.0) == (os.getpid(),)
