"""Commands whose standard streams are closed, full or read by nobody, and whose working directory or home is gone."""

import os
import signal
import subprocess
import sys

import pytest
from simulated_scenario import scenario

PROGRAM = "import sys; sys.argv[0] = 'e2c-dl'; from e2c_dl.cli.main import main; main()"
RUN = [sys.executable, "-c", PROGRAM]


def shell(script, *words, **how):
    """Runs ``script`` with the command, then ``words``, as its arguments; the shell redirects what Python cannot."""
    return subprocess.run(
        ["bash", "-c", script, "bash", *RUN, *words], capture_output=True, text=True, check=False, timeout=60, **how
    )


@pytest.fixture
def here(repository):
    """The checkout as the working directory and import path of what is started."""
    return {"cwd": repository, "env": {**os.environ, "PYTHONPATH": str(repository)}}


@pytest.mark.parametrize(
    ("script", "code", "error"),
    [
        ('"$@" >&-', 0, ""),
        ('"$@" 2>&-', 0, ""),
        ('"$@" <&- >&- 2>&-', 0, ""),
        ('"$@" nosuch 2>&-', 2, ""),
        ('"$@" nosuch 2>/dev/full', 2, ""),
        ('"$@" nosuch 2>&1 | true; exit ${PIPESTATUS[0]}', 2, ""),
        ('"$@" | true; exit ${PIPESTATUS[0]}', 0, ""),
        ('PYTHONUNBUFFERED=1 "$@" | true; exit ${PIPESTATUS[0]}', 0, ""),
        ('"$@" >/dev/full', 1, "No space left on device"),
    ],
)
def test_streams_that_lead_nowhere(here, script, code, error):
    done = shell(script, "strategies", **here)
    assert done.returncode == code, done.stderr
    assert error in done.stderr
    assert done.stderr.count("\n") == bool(error)


def test_a_file_that_is_opened_does_not_become_a_closed_stream(here, tmp_path):
    profile = scenario(tmp_path / "s")
    done = shell('"$@" >&- 2>&-', "simulate", str(profile), "--shapes-only", "--archive", str(tmp_path / "a"), **here)
    assert done.returncode == 0
    verified = shell('"$@"', "verify", str(tmp_path / "a"), **here)
    assert verified.returncode == 0, verified.stderr


def test_a_terminal_that_knows_no_arrows(here):
    here["env"]["PYTHONIOENCODING"] = "ascii"
    done = shell('"$@"', "check", "experiments/partition", **here)
    assert done.returncode == 0, done.stderr


def test_a_removed_working_directory_is_one_line(here, tmp_path):
    here["cwd"] = tmp_path
    done = shell('mkdir x; cd x; rmdir ../x; "$@"', "strategies", **here)
    assert done.returncode == 2
    assert done.stderr.splitlines()[-1] == "e2c-dl: the working directory was removed; cd to one that exists"
    assert "Traceback" not in done.stderr


@pytest.mark.parametrize("home", ["HOME=/nowhere", "HOME=/proc", "-u HOME"])
def test_no_home_is_needed(here, tmp_path, home):
    source = scenario(tmp_path / "s")
    words = ["simulate", str(source), "--shapes-only", "--archive", str(tmp_path / "a")]
    done = shell(f'env {home} "$@"', *words, **here)
    assert done.returncode == 0, done.stderr


@pytest.mark.parametrize("number", [signal.SIGHUP, signal.SIGTERM])
def test_a_closed_terminal_ends_a_simulation_in_order(here, tmp_path, number):
    source, archive = scenario(tmp_path / "s", iterations=1_000_000), tmp_path / "a"
    command = [*RUN, "simulate", str(source), "--shapes-only", "--archive", str(archive)]
    with subprocess.Popen(command, stderr=subprocess.PIPE, stdout=subprocess.DEVNULL, text=True, **here) as process:
        for line in process.stderr:
            if "simulate " in line:
                break
        process.send_signal(number)
        said = process.stderr.read()
    assert process.returncode == 130, said
    assert f"stopped by {number.name}" in said.splitlines()[-1]
    assert shell('"$@"', "verify", str(archive), **here).returncode == 0


@pytest.mark.parametrize("number", [signal.SIGHUP, signal.SIGTERM, signal.SIGINT])
def test_other_commands_end_as_by_ctrl_c(here, number):
    waits = f"""
import os, signal, sys, threading
from e2c_dl.cli import main, scenarios
sys.argv = ["e2c-dl", "strategies"]
main.cli.invoke = lambda _: (os.kill(os.getpid(), {int(number)}), threading.Event().wait(60))
main.main()
"""
    done = subprocess.run([sys.executable, "-c", waits], capture_output=True, text=True, check=False, **here)
    assert (done.stderr.strip(), done.returncode) == ("e2c-dl: interrupted", 130)
