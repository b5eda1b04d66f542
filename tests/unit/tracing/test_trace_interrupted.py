"""Ctrl-C or SIGTERM while `e2c-dl trace` waits for nsys: what was traced can be collected as if nobody had come."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest
from test_left_by_nsys import NSYS, made, program, report

from e2c_dl.archive.read import open_archive
from e2c_dl.archive.verify import verify
from e2c_dl.campaign.traced import collected

__all__ = ["made", "program"]  # fixtures

SCRIPT = """
from e2c_dl.tracing import api as trace
with trace.run("x"):
    for number in trace.iteration(range(3)):
        with trace.span("forward"):
            sum(range(10000))
    open("report1.nsys-rep", "wb").write(open("of-nsys", "rb").read())
    raise SystemExit(3)
"""


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_what_was_interrupted_as_nsys_exports_can_be_collected(
    number: signal.Signals, made: Path, program: Path
) -> None:
    archive, exported = made.parent / "archive", made / "exported"
    report(made / "of-nsys")
    (made / "main.py").write_text(SCRIPT)
    program.write_text(f'#!/bin/sh\ncat "$8" > "$7"; echo > {exported}; exec sleep 60')
    command = [sys.executable, "-m", "e2c_dl", "trace", "--archive", str(archive), "--", sys.executable, "main.py"]
    traced = subprocess.Popen(command, cwd=made, stderr=subprocess.PIPE, text=True, start_new_session=True)
    try:
        while not exported.exists():
            assert traced.poll() is None
            time.sleep(0.02)
        os.kill(traced.pid, number)
        said = traced.communicate(timeout=30)[1]
    finally:
        if traced.poll() is None:
            os.killpg(traced.pid, signal.SIGKILL)
            traced.wait()
    assert traced.returncode == 3, "the script's"
    waited, interrupted, stands = said.splitlines()[-3:]
    assert waited == f"e2c-dl: nsys exports {made}/report1.nsys-rep"
    assert interrupted == "e2c-dl: interrupted"
    assert stands.endswith(f"`e2c-dl collect {archive}` makes an archive of it")
    assert not (archive / "run.json").exists()

    program.write_text(NSYS)
    told: list[str] = []
    read = open_archive(collected([archive], archive, say=told.append))
    assert told[0] == waited.removeprefix("e2c-dl: ")
    assert (len(read.hosts), read.run.testbed, verify(archive)) == (1, "traced", ())
