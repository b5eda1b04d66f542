"""The relay: one process that carries all frames between hosts on one machine, at the rates and delays asked for.

::

    stdin: RelayConfig as JSON    stdout: {"ready": ...} or {"error": "..."}, one line    report_path: counters, JSON

    TAP eth1 of every host --read--> Switch --heap of departures--> write --> TAP eth1 of the receiver
    control_path --------- changes of links and bottlenecks --^          (relay.control)

``python -m e2c_dl.emulation.relay.main`` ends with 0 on SIGTERM or SIGINT, after writing its report, and with 1 on an
error before it was ready. The report is also rewritten once a second, so that killing the relay loses at most that.

It competes with training for the cores, so it asks for real-time scheduling (little of it is needed: the rest of the
machine keeps at least what the kernel's real-time throttling leaves), else for a better nice value, and reports which.
"""

from __future__ import annotations

import gc
import json
import os
import resource
import select
import signal
import socket
import sys
import time
from pathlib import Path

from e2c_dl.emulation.priority import raise_priority
from e2c_dl.emulation.relay.config import RelayConfig
from e2c_dl.emulation.relay.control import RelayControlSocket
from e2c_dl.emulation.relay.report import BackgroundReports, HostLost, RelayReport, write_report
from e2c_dl.emulation.relay.switch import Switch
from e2c_dl.emulation.relay.tap import open_tap, overruns
from e2c_dl.errors import EmulationError

REPORT_PERIOD_S = 1.0
READ_BYTES = 68 * 1024  # more than the largest frame with its headers
FRAMES_PER_TURN = 16  # of one host, before the others and what is due get their turn


class Relay:
    """The event loop over the TAP descriptors ``taps`` (one per host of ``config``, in its order)."""

    def __init__(self, config: RelayConfig, taps: list[int], scheduler: str) -> None:
        self._config, self._scheduler = config, scheduler
        self._taps: list[int | None] = list(taps)
        self._index = {tap: index for index, tap in enumerate(taps)}
        self._lost: list[HostLost] = []
        self._epoll = select.epoll()
        for tap in taps:
            self._epoll.register(tap, select.EPOLLIN)
        self._started_s, self._cpu_before_s = time.monotonic(), _cpu_s()
        self._switch = Switch(config, time.monotonic, self._write)
        self._control: RelayControlSocket | None = None
        if config.control_path is not None:
            self._control = RelayControlSocket(Path(config.control_path), self._switch)
            self._epoll.register(self._control, select.EPOLLIN)

    def close(self) -> None:
        """Takes no changes any more."""
        if self._control is not None:
            self._control.close()

    def run(self, stop: socket.socket, reports: BackgroundReports) -> None:
        """Carries frames until ``stop`` becomes readable; hands a report to ``reports`` once a second."""
        self._epoll.register(stop, select.EPOLLIN)
        next_report_s = self._started_s + REPORT_PERIOD_S
        while True:
            self._switch.deliver()
            now_s = time.monotonic()
            if now_s >= next_report_s:
                reports.put(self.report(final=False))
                next_report_s = now_s + REPORT_PERIOD_S
            for descriptor in self._readable(min(self._switch.next_due_s(), next_report_s) - now_s):
                if descriptor == stop.fileno():
                    return
                if self._control is not None and descriptor == self._control.fileno():
                    self._control.serve()
                else:
                    self._read(descriptor)
                self._switch.deliver()  # between hosts, so that one that sends much delays nobody

    def report(self, *, final: bool) -> RelayReport:
        return RelayReport(
            **self._switch.report(),
            final=final,
            seconds=time.monotonic() - self._started_s,
            cpu_s=_cpu_s() - self._cpu_before_s,
            scheduler=self._scheduler,
            hosts_lost=list(self._lost),
            changes=0 if self._control is None else self._control.changes,
            changes_refused=0 if self._control is None else self._control.refused,
            overruns={},
        )

    def _readable(self, timeout_s: float) -> list[int]:
        """Descriptors with something to read, after at most ``timeout_s``."""
        if timeout_s > 0:
            # epoll's own time-out is rounded up to milliseconds; select's is in microseconds.
            select.select((self._epoll,), (), (), timeout_s)
        return [descriptor for descriptor, _ in self._epoll.poll(0)]

    def _read(self, tap: int) -> None:
        src = self._index[tap]
        for _ in range(FRAMES_PER_TURN):
            try:
                buffer = os.read(tap, READ_BYTES)
            except BlockingIOError:
                return
            except OSError as error:
                self._lose(src, error)
                return
            self._switch.forward(src, buffer)

    def _write(self, dst: int, buffer: bytes) -> bool:
        tap = self._taps[dst]
        if tap is None:
            return False
        try:
            os.write(tap, buffer)
        except OSError:
            return False  # its interface is down, or gone, which the next read tells; counted by the caller
        return True

    def _lose(self, index: int, error: OSError) -> None:
        """The interface of a host is gone with its namespace: the others go on."""
        tap = self._taps[index]
        if tap is None:
            return
        self._epoll.unregister(tap)
        os.close(tap)
        self._taps[index] = None  # its number may be given to another descriptor
        after_s = time.monotonic() - self._started_s
        name = self._config.hosts[index].name
        self._lost.append(HostLost(host=name, after_s=after_s, why=error.strerror or str(error)))


def main() -> int:
    """The process. Returns its exit status."""
    stop = _stop_socket()
    try:
        config = RelayConfig.from_json(sys.stdin.read())
        taps = [open_tap(host) for host in config.hosts]
        relay = Relay(config, taps, scheduler := raise_priority())
        write_report(path := Path(config.report_path), relay.report(final=False))
    except (EmulationError, OSError) as error:
        print(json.dumps({"error": str(error)}), flush=True)
        return 1
    gc.collect()
    gc.freeze()
    gc.disable()  # a collection takes milliseconds; the loop makes no cycles
    print(json.dumps({"ready": True, "scheduler": scheduler}), flush=True)
    reports = BackgroundReports(path, lambda: overruns(config.hosts))
    relay.run(stop, reports)
    relay.close()
    reports.close()
    try:
        write_report(path, {**relay.report(final=True), "overruns": overruns(config.hosts)})
    except OSError as error:
        print(f"relay: cannot write its final report: {error}", file=sys.stderr, flush=True)
        return 1
    return 0


def _stop_socket() -> socket.socket:
    """Readable once SIGTERM or SIGINT came."""
    wake, stop = socket.socketpair()
    wake.setblocking(False)  # a signal must not wait for its reader
    signal.set_wakeup_fd(wake.detach())
    for number in (signal.SIGTERM, signal.SIGINT):
        signal.signal(number, lambda *_: None)  # without a handler it would kill before the byte is written
    return stop


def _cpu_s() -> float:
    used = resource.getrusage(resource.RUSAGE_SELF)
    return used.ru_utime + used.ru_stime


if __name__ == "__main__":
    sys.exit(main())
