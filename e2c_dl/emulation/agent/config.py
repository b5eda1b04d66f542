"""Lines that an agent reads from standard input: its configuration, and what its worker tells while it trains.

::

    {"host": ..., "scenario": ..., ...}   AgentConfig, one line; it answers {"ready": true, ...} or {"error": "..."}
    began NS                              training began, in ns of the machine's monotonic clock
    iteration N NS                        its worker began iteration N
    (end)                                 nothing is to change any more
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

import msgspec

from e2c_dl import typed
from e2c_dl.errors import EmulationError


class AgentConfig(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """One host's."""

    host: str
    scenario: str  # its folder
    log: str  # where changes are written
    worker_pid: int  # its parent
    backend: str  # how links are emulated: relay, tc, htb, none
    relay_socket: str | None
    device: str | None  # of the data network
    addresses: Mapping[str, str]  # host -> its address on the data network

    def to_line(self) -> str:
        return msgspec.json.encode(self).decode() + "\n"

    @classmethod
    def from_line(cls, line: str) -> AgentConfig:
        """Raises: EmulationError when ``line`` is not what ``to_line`` writes."""
        try:
            return typed.decode(line, cls)
        except msgspec.DecodeError as error:
            raise EmulationError(f"agent: its configuration is not one ({error}); pass to_line()") from error


@dataclass(frozen=True, kw_only=True)
class WorkerSignal:
    """A line from the worker: training began (``iteration`` None), or one of its iterations."""

    at_ns: int
    iteration: int | None = None

    def to_line(self) -> str:
        return f"began {self.at_ns}\n" if self.iteration is None else f"iteration {self.iteration} {self.at_ns}\n"

    @classmethod
    def from_line(cls, line: str) -> WorkerSignal:
        """Raises: EmulationError."""
        try:
            word, *numbers = line.split()
            if word == "began" and len(numbers) == 1:
                return cls(at_ns=int(numbers[0]))
            if word == "iteration" and len(numbers) == 2:
                return cls(iteration=int(numbers[0]), at_ns=int(numbers[1]))
        except ValueError as error:
            raise EmulationError(f"agent: was told {line!r}: {error}; write 'began NS' or 'iteration N NS'") from error
        raise EmulationError(f"agent: was told {line!r}; write 'began NS' or 'iteration N NS'")
