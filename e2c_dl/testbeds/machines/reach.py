"""Ask hosts over SSH with the program ``host_side``, all side by side, each with a time-out of its own."""

from __future__ import annotations

import json
import subprocess
from collections.abc import Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from e2c_dl.testbeds.access import ssh_argv
from e2c_dl.testbeds.base import Access
from e2c_dl.testbeds.host_keys import refusal

BASE_PYTHON = "python3"
TIMEOUT_S = 40.0
_AT_ONCE = 32  # connections


@dataclass(frozen=True, kw_only=True)
class Answer:
    """What one host said: ``value``, or why there is none."""

    value: Any = None
    failure: str | None = None


def ask(accesses: Sequence[Access], verb: str, arguments: Mapping[str, Sequence[str]]) -> dict[str, Answer]:
    """host -> its answer to ``verb`` with ``arguments[host]``. Hosts do not wait for each other."""
    program = (Path(__file__).parent / "host_side.py").read_text(encoding="utf-8")
    with ThreadPoolExecutor(max_workers=_AT_ONCE) as pool:
        answers = pool.map(lambda access: _ask(access, program, [verb, *arguments[access.name]]), accesses)
        return {access.name: answer for access, answer in zip(accesses, answers, strict=True)}


def _ask(access: Access, program: str, words: list[str]) -> Answer:
    argv = ssh_argv(access, BASE_PYTHON, "-", *words)
    try:
        done = subprocess.run(argv, input=program, capture_output=True, text=True, timeout=TIMEOUT_S, check=False)
    except subprocess.TimeoutExpired:
        return Answer(failure=f"did not answer within {TIMEOUT_S:g} s")
    except FileNotFoundError:
        return Answer(failure="there is no ssh on this machine; apt-get install openssh-client")
    if done.returncode:
        distrusted = refusal(access.host_keys, access.address, access.port, done.stderr)
        said = " ".join(done.stderr.split()) or f"{words[0]} ended with status {done.returncode}"
        return Answer(failure=distrusted or said)
    try:
        return Answer(value=json.loads(done.stdout))
    except ValueError:
        return Answer(failure=f"answered something else: {done.stdout.strip()[:80]!r}; does its shell greet?")
