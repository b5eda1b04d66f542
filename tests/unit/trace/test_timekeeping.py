"""What keeps a host's clock: of this machine, and of trees and answers as other hosts have them."""

from __future__ import annotations

import errno
import io
import json
import os
import subprocess
import sys
import time
import warnings
from collections.abc import Callable, Sequence
from contextlib import suppress
from pathlib import Path
from typing import Any

import pytest

from e2c_dl.trace.clocks.timekeeping import Unknown, chrony, daemons, kernel, ptp, ptp4l, said, systemd, timekeeping

TRACKING = "C0A80001,192.168.0.1,3,1795355927.9,0.000012,-3e-06,2e-05,-12.345,0.001,0.05,0.0012,0.0003,64.5,Normal\n"
"""As chrony 4.3 prints it."""


STATUS = """sending: GET TIME_STATUS_NP
	90e2ba.fffe.20c7f8-0 seq 0 RESPONSE {word} TIME_STATUS_NP
		master_offset              -31
		ingress_time               1361545089345029441
		cumulativeScaledRateOffset +0.000000000
		lastGmPhaseChange          0x0000'0000000000000000.0000
		gmPresent                  true
		gmIdentity                 00a069.fffe.0b552d
"""
"""As linuxptp prints it."""


def printing(text: str) -> Callable[[Sequence[str]], str]:
    return lambda _: text


def test_every_part_is_told_or_said_to_be_unknown() -> None:
    told = timekeeping()
    parts = {"kernel", "clock_source", "daemons", "chrony", "systemd", "ptp", "ptp4l"}
    assert set(told) - {"unknown"} | set(told["unknown"]) == parts
    assert all("\n" not in reason for reason in told["unknown"].values())
    json.dumps(told)


def test_the_kernel_says_whether_it_is_synchronised() -> None:
    state = kernel()
    assert isinstance(state["synchronised"], bool)
    assert abs(state["frequency_ppm"]) <= 500, "the kernel slews by no more"


def test_chrony_is_understood() -> None:
    tracked = chrony(printing(TRACKING))
    assert tracked["source"] == "192.168.0.1"
    assert (tracked["offset_s"], tracked["frequency_ppm"], tracked["leap"]) == (12e-6, -12.345, "Normal")


@pytest.mark.parametrize("text", ["", "506 Cannot talk to daemon", TRACKING.replace("3,", "x,", 1)])
def test_what_is_no_tracking_is_unknown(text: str) -> None:
    with pytest.raises(Unknown, match="chronyc"):
        chrony(printing(text))


@pytest.mark.parametrize("word", ["MANAGEMENT", "MANAGMENT"])
def test_ptp4l_is_asked_by_pmc(word: str) -> None:
    assert ptp4l(printing(STATUS.format(word=word))) == {
        "offset_s": pytest.approx(-31e-9), "grandmaster": "00a069.fffe.0b552d", "follows_it": True
    }  # fmt: skip


@pytest.mark.parametrize("text", ["sending: GET TIME_STATUS_NP\n", STATUS.format(word="MANAGEMENT")[:120]])
def test_without_an_answer_of_ptp4l_it_is_unknown(text: str) -> None:
    with pytest.raises(Unknown, match="pmc"):
        ptp4l(printing(text))


def program(folder: Path, name: str, does: str) -> None:
    (folder / name).write_text(f"#!/bin/sh\n{does}\n")
    (folder / name).chmod(0o755)


def test_programs_on_the_path_are_asked_and_waited_for_a_bounded_time(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("PATH", f"{tmp_path}:{os.environ['PATH']}")
    (tmp_path / "status").write_text(STATUS.format(word="MANAGEMENT"))
    program(tmp_path, "pmc", f'[ "$*" = "-u -b 0 GET TIME_STATUS_NP" ] && cat {tmp_path}/status')
    program(tmp_path, "chronyc", f"printf %s '{TRACKING}'")
    told = timekeeping()
    assert (told["ptp4l"]["follows_it"], told["chrony"]["stratum"]) == (True, 3.0)
    program(tmp_path, "chronyc", "exec sleep 60")
    began_s = time.monotonic()
    told = timekeeping(within_s=0.2)
    assert time.monotonic() - began_s < 2
    assert "timed out" in told["unknown"]["chrony"]
    assert told["unknown"]["ptp4l"] == "no time was left to ask it"


WAITING = """
import os, signal, threading
from e2c_dl.trace.clocks.timekeeping import timekeeping
told, found = [], []
signal.signal(signal.SIGCHLD, lambda *_: found.append("SIGCHLD"))
thread = threading.Thread(target=lambda: told.append(timekeeping()))
thread.start()
while thread.is_alive():
    try:
        found.append(os.waitpid(-1, os.WNOHANG))
        found.append(os.wait())
    except ChildProcessError:
        pass
assert told[0]["chrony"]["stratum"] == 3, told
assert not found, found
own = os.posix_spawn("/bin/true", ["true"], os.environ)
assert os.wait() == (own, 0)
"""


def test_a_script_that_waits_for_any_child_never_sees_a_program_that_is_asked(tmp_path: Path) -> None:
    program(tmp_path, "chronyc", f"sleep 0.3; printf %s '{TRACKING}'")
    environment = {**os.environ, "PATH": f"{tmp_path}:{os.environ['PATH']}"}
    subprocess.run([sys.executable, "-c", WAITING], env=environment, check=True, timeout=60)


def test_systemd_is_asked_where_it_runs(tmp_path: Path) -> None:
    with pytest.raises(Unknown, match="does not run here"):
        systemd(printing(""), tmp_path)
    (tmp_path / "run/systemd/system").mkdir(parents=True)
    assert systemd(printing("NTP=yes\nNTPSynchronized=no\n"), tmp_path) == {"ntp": True, "synchronised": False}
    with pytest.raises(Unknown, match="'NTP'"):
        systemd(printing("something else"), tmp_path)


def test_daemons_and_devices_are_found(tmp_path: Path) -> None:
    for number, name in ((1, "init"), (77, "chronyd"), (78, "phc2sys")):
        (tmp_path / f"proc/{number}").mkdir(parents=True)
        (tmp_path / f"proc/{number}/comm").write_text(f"{name}\n")
    (tmp_path / "proc/79").mkdir()  # it has just ended
    (tmp_path / "sys/class/ptp/ptp0").mkdir(parents=True)
    (tmp_path / "sys/class/ptp/ptp0/clock_name").write_text("KVM virtual PTP\n")
    assert daemons(tmp_path) == ["chronyd", "phc2sys"]
    assert ptp(tmp_path) == {"ptp0": "KVM virtual PTP"}
    assert ptp(tmp_path / "proc") == {}


def test_a_command_that_fails_says_why(tmp_path: Path) -> None:
    with pytest.raises(Unknown, match="not installed"):
        said([str(tmp_path / "chronyc")])
    with pytest.raises(Unknown, match="^506 Cannot"):
        said([sys.executable, "-c", "print('506 Cannot talk to daemon'); raise SystemExit(1)"])
    with pytest.raises(Unknown, match="exited with 3"):
        said([sys.executable, "-c", "raise SystemExit(3)"])
    assert said([sys.executable, "-c", "print('x')"]) == "x\n"


def test_a_process_that_ends_while_its_name_is_looked_up_is_left_out(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Whatever the kernel says of its files by then, and whichever call is told so."""
    for number in (7, 8):
        (tmp_path / f"proc/{number}").mkdir(parents=True)
        (tmp_path / f"proc/{number}/comm").write_text("chronyd\n" if number == 7 else "ntpd\n")

    def ended(call: Callable[..., Any]) -> Callable[..., Any]:
        def answer(path: Any, *words: Any, **options: Any) -> Any:
            if str(path).endswith("proc/8/comm"):
                raise ProcessLookupError(errno.ESRCH, "No such process")
            return call(path, *words, **options)

        return answer

    for module, name in ((os, "stat"), (io, "open")):
        monkeypatch.setattr(module, name, ended(getattr(module, name)))
    assert daemons(tmp_path) == ["chronyd"]


def test_asking_never_makes_a_script_show_a_warning_again() -> None:
    with warnings.catch_warnings(record=True) as shown:
        warnings.simplefilter("default")
        for command in (["true"], ["no-such-program"]):
            warnings.warn("the script's own", stacklevel=1)
            with suppress(Unknown):
                said(command)
    assert len(shown) == 1
