"""Programs that are waited for, and the end of a wait."""

import os
import signal
import threading

import pytest

from e2c_dl.campaign.interrupts import interruptible
from e2c_dl.errors import Interrupted
from e2c_dl.testbeds import programs
from e2c_dl.testbeds.base import Access


def host(name: str) -> Access:
    return Access(
        name=name, address="198.18.0.10", data_address="198.19.0.10", data_device="eth1", user="root", keyfile="",
        port=22, python="python3", run_dir="",
    )  # fmt: skip


HOSTS = tuple(host(f"edge-{number}") for number in range(1, 41))  # more than are asked at once


def test_what_interrupts_a_wait_ends_the_programs():
    with interruptible() as interrupts, pytest.raises(Interrupted), interrupts.raised(True):
        threading.Timer(0.3, os.kill, (os.getpid(), signal.SIGTERM)).start()
        programs.on_all(HOSTS, lambda access: programs.answer(access, ["sleep", "100000"], "", 100_000.0))


def test_all_are_asked_though_one_fails():
    asked = []

    def ask(access: Access) -> None:
        asked.append(access.name)
        if access.name == "edge-1":
            raise ValueError("edge-1")

    with pytest.raises(ValueError, match="edge-1"):
        programs.on_all(HOSTS, ask)
    assert len(asked) == len(HOSTS)


def test_answers_are_by_host():
    answers = programs.on_all(HOSTS[:3], lambda a: programs.answer(a, ["echo", f'["{a.name}"]'], "", 60.0))
    assert {name: answer.value for name, answer in answers.items()} == {a.name: [a.name] for a in HOSTS[:3]}


def test_what_is_no_text_is_told_as_far_as_it_is(tmp_path, monkeypatch):
    ssh = tmp_path / "ssh"
    ssh.write_text("#!/bin/sh\nprintf 'half \\303\\n'\n")
    ssh.chmod(0o755)
    monkeypatch.setenv("PATH", f"{tmp_path}:{os.environ['PATH']}")
    assert programs.said(HOSTS[0], "cat", "worker.log") == "half \ufffd\n"
    assert "answered something else: 'half \ufffd'" in programs.answer(HOSTS[0], ["ssh"], "", 60.0).failure
