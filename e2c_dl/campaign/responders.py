"""Measuring programs that wait on hosts while links to them are measured."""

from __future__ import annotations

import json
import select
import subprocess
from collections.abc import Sequence
from contextlib import ExitStack
from types import TracebackType

from e2c_dl.errors import EmulationError
from e2c_dl.testbeds import programs
from e2c_dl.testbeds.base import Access

PROBER = ("-m", "e2c_dl.emulation.measuring.main")
READY_S = 30.0
STOP_S = 5.0


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
        argv = programs.python(access, *PROBER, "respond", access.data_address)
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
    return int(programs.read(access, line + rest, said, process.returncode).checked(access)["port"])


def _stop(process: subprocess.Popen[str]) -> None:
    """Ends by the end of its input; by force if it does not."""
    try:
        process.communicate(timeout=STOP_S)
    except subprocess.TimeoutExpired:
        process.kill()
        process.communicate()
    except (BrokenPipeError, ValueError):  # it is gone already, and its pipes are closed
        process.wait()
