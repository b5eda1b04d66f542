"""Programs of this package on hosts that are up: one way in, whatever the host is."""

from __future__ import annotations

import json
import select
import subprocess
import sys
from collections.abc import Mapping, Sequence
from contextlib import ExitStack
from types import TracebackType
from typing import Any

from e2c_dl.errors import EmulationError
from e2c_dl.testbeds.access import enter_network, ssh_argv
from e2c_dl.testbeds.base import Access

PROBER = ("-m", "e2c_dl.emulation.measuring.main")
READY_S = 30.0
ANSWER_S = 300.0
STOP_S = 5.0


def program(access: Access, *words: str) -> list[str]:
    """Command line that runs Python with ``words`` on the host: over SSH, or in its network where that is here."""
    if access.netns_pid is None:
        return ssh_argv(access, access.python, *words)
    return enter_network(access, [sys.executable, *words])


def asked(access: Access, words: Sequence[str], request: Mapping[str, Any], timeout_s: float = ANSWER_S) -> Any:
    """What the program ``words`` answers to ``request``, JSON both ways. Raises: EmulationError with what it said."""
    argv = program(access, *words)
    try:
        done = subprocess.run(
            argv, input=json.dumps(request), capture_output=True, text=True, timeout=timeout_s, check=False
        )
    except subprocess.TimeoutExpired as error:
        raise EmulationError(f"host {access.name}: no answer within {timeout_s:g} s; is it reachable?") from error
    return _answer(access, done.stdout, done.stderr, done.returncode)


class Responders:
    """One measuring program on every host of ``accesses``, from entering until leaving; ``ports`` says where.

    Raises: EmulationError, on entering, for the first host that has none.
    """

    def __init__(self, accesses: Sequence[Access]) -> None:
        self._accesses, self._stack = accesses, ExitStack()
        self.ports: dict[str, int] = {}

    def __enter__(self) -> Responders:
        with ExitStack() as stack:
            started = [(access, self._start(access, stack)) for access in self._accesses]
            for access, process in started:
                self.ports[access.name] = _port(access, process)
            self._stack = stack.pop_all()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._stack.close()

    def _start(self, access: Access, stack: ExitStack) -> subprocess.Popen[str]:
        argv = program(access, *PROBER, "respond", access.data_address)
        process = subprocess.Popen(
            argv, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True,
            start_new_session=True,  # Ctrl-C ends what this process does, then this process ends them
        )  # fmt: skip
        stack.callback(_stop, process)
        return process


def _port(access: Access, process: subprocess.Popen[str]) -> int:
    stdout = process.stdout
    if stdout is None or not select.select([stdout], [], [], READY_S)[0]:
        raise EmulationError(f"host {access.name}: its responder is not ready after {READY_S:g} s; is it reachable?")
    line = stdout.readline()
    if '"port"' in line:
        return int(json.loads(line)["port"])
    process.kill()
    rest, said = process.communicate()
    return int(_answer(access, line + rest, said, process.returncode)["port"])


def _stop(process: subprocess.Popen[str]) -> None:
    """Ends by the end of its input; by force if it does not."""
    try:
        process.communicate(timeout=STOP_S)
    except subprocess.TimeoutExpired:
        process.kill()
        process.communicate()
    except (BrokenPipeError, ValueError):  # it is gone already, and its pipes are closed
        process.wait()


def _answer(access: Access, out: str, said: str, status: int) -> Any:
    """The JSON in ``out``. Raises: EmulationError if that is an error, or none."""
    try:
        answer = json.loads(out)
    except ValueError:
        why = " ".join(said.split()[-40:]) or f"status {status}"
        raise EmulationError(f"host {access.name}: {why}") from None
    if isinstance(answer, Mapping) and "error" in answer:
        raise EmulationError(f"host {access.name}: {answer['error']}")
    return answer
