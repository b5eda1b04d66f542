"""Use of the host and by this process, sampled once a second into CSV by a thread of its own.

Times are of this host's own clock, as in the trace; CPU times and bytes count from the start of the process, the
machine or the device, so that rates are differences of rows.
"""

from __future__ import annotations

import fcntl
import os
import socket
import struct
import threading
import time
from collections.abc import Callable
from pathlib import Path
from typing import Protocol, TextIO

from e2c_dl.errors import TrainingError
from e2c_dl.memory import memory_available_bytes

COLUMNS = (
    "time_ns", "process_cpu_s", "process_rss_bytes", "rx_bytes", "tx_bytes",
    "machine_busy_s", "machine_idle_s", "memory_available_bytes",
)  # fmt: skip
EVERY_S = 1.0

_SIOCGIFADDR = 0x8915
_TICK_S = 1.0 / os.sysconf("SC_CLK_TCK")
_PAGE_BYTES = os.sysconf("SC_PAGE_SIZE")


class More(Protocol):
    """Further columns of the same rows."""

    @property
    def columns(self) -> tuple[str, ...]: ...

    def sample(self) -> tuple[float | int | str, ...]:
        """A value for each column, now; empty text where there is none. Called from the thread of the metrics."""


class Metrics:
    """Writes a row every second from construction until :meth:`close`. ``device`` None: network columns stay empty.

    Raises: TrainingError if ``path`` cannot be created; :meth:`close` raises it if a row could not be written.
    """

    def __init__(
        self,
        path: Path,
        device: str | None,
        every_s: float = EVERY_S,
        clock: Callable[[], int] = time.monotonic_ns,
        more: More | None = None,
    ) -> None:
        self._more = more
        self._path, self._device, self._every_s, self._clock = path, device, every_s, clock
        self._closing = threading.Event()  # ends a sleep at once, unlike time.sleep
        self._failure: OSError | None = None
        try:
            self._file = path.open("w", buffering=1)  # by lines: whoever is killed leaves whole rows
        except OSError as error:
            raise TrainingError(f"{path}: cannot be written: {error.strerror}; make room there") from error
        self._thread = threading.Thread(target=self._sample_until_closed, name="metrics", daemon=True)
        self._thread.start()

    def close(self) -> None:
        """Write a last row. Raises: TrainingError if any row could not be written."""
        self._closing.set()
        self._thread.join()  # so that the last row is there before hosts are collected
        if self._failure is not None:
            why = self._failure.strerror
            raise TrainingError(f"{self._path}: cannot be written: {why}; make room there") from self._failure

    def _sample_until_closed(self) -> None:
        try:
            with self._file as file:
                file.write(",".join((*COLUMNS, *(self._more.columns if self._more else ()))) + "\n")
                while not self._closing.is_set():
                    self._sample(file)
                    self._closing.wait(self._every_s)
                self._sample(file)
        except OSError as error:
            self._failure = error  # raised by close(): nobody would hear a thread's exception

    def _sample(self, file: TextIO) -> None:
        row = (self._clock(), *process_usage(), *device_bytes(self._device), *machine_usage(), memory_available_bytes())
        more = self._more.sample() if self._more else ()
        file.write(",".join(str(value) for value in (*row, *more)) + "\n")


def device_with(address: str) -> str | None:
    """The network device that has the IPv4 ``address``; None if none has."""
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as asking:  # any socket: it only carries the question
        for _, name in socket.if_nameindex():
            try:
                answer = fcntl.ioctl(asking.fileno(), _SIOCGIFADDR, struct.pack("256s", name.encode()))
            except OSError:
                continue  # a device without IPv4 address
            if socket.inet_ntoa(answer[20:24]) == address:
                return name
    return None


def process_usage() -> tuple[float, int]:
    """(CPU seconds, user and system; resident bytes) of this process."""
    used = os.times()
    resident_pages = int(Path("/proc/self/statm").read_text().split()[1])  # statm counts pages
    return round(used.user + used.system, 3), resident_pages * _PAGE_BYTES


def device_bytes(device: str | None) -> tuple[int | str, int | str]:
    """(received, sent) bytes of ``device`` since it exists; empty strings if there is no such device."""
    for line in Path("/proc/self/net/dev").read_text().splitlines():
        name, _, counters = line.partition(":")
        if device is not None and name.strip() == device:
            fields = counters.split()
            return int(fields[0]), int(fields[8])
    return "", ""


def machine_usage() -> tuple[float, float]:
    """(busy, idle) core-seconds of the whole machine since it booted; waiting for a disk is idle."""
    ticks = [int(field) for field in Path("/proc/stat").read_text().split("\n", 1)[0].split()[1:9]]
    idle = ticks[3] + ticks[4]  # idle, iowait
    return round((sum(ticks) - idle) * _TICK_S, 2), round(idle * _TICK_S, 2)
