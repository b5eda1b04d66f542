"""One ``e2c-dl deploy`` under way: what it says, when each of its stages begins, and which hosts wrote traces."""

from __future__ import annotations

import os
import signal
import subprocess
import threading
import time
from collections.abc import Mapping, Sequence
from contextlib import suppress
from pathlib import Path

from benchmarks.faults import processes
from benchmarks.faults.kinds import STAGES

_LOOK_EVERY_S = 0.02
_HEADER_BYTES = 256


class Running:
    """``said`` is its standard error so far, ``traced`` the hosts whose workers have written spans."""

    def __init__(self, argv: Sequence[str], environ: Mapping[str, str], folder: Path) -> None:
        reader, writer = os.pipe()
        with (folder / "stdout").open("wb") as out:
            self.process = subprocess.Popen(
                argv, stdin=subprocess.DEVNULL, stdout=out, stderr=writer, env=dict(environ), cwd=folder,
                start_new_session=True,
            )  # fmt: skip
        os.close(writer)
        self.traced: set[str] = set()
        self._stdout = folder / "stdout"
        self._said = b""
        self._reader = reader
        self._reading = threading.Lock()
        self._begun_s = time.monotonic()
        self._threads = [threading.Thread(target=each, daemon=True) for each in (self._read, self._watch)]
        for thread in self._threads:
            thread.start()

    @property
    def pid(self) -> int:
        return self.process.pid

    @property
    def said(self) -> str:
        return self._said.decode(errors="replace")

    @property
    def over(self) -> bool:
        return self.process.poll() is not None

    @property
    def seconds(self) -> float:
        return time.monotonic() - self._begun_s

    @property
    def stage(self) -> str:
        """The stage that it is in: the last that it told of."""
        begun = [line.split()[0] for line in self.said.splitlines() if line and line.split()[0] in STAGES]
        return begun[-1] if begun else "check"

    def until(self, stage: str, after_s: float) -> bool:
        """Wait until ``after_s`` into ``stage``, or a later one; False if it has ended before."""
        late = STAGES[STAGES.index(stage) :]
        while self.stage not in late:
            if self.over:
                return False
            time.sleep(_LOOK_EVERY_S)  # polling another program's output
        deadline_s = time.monotonic() + after_s
        while time.monotonic() < deadline_s and not self.over:
            time.sleep(_LOOK_EVERY_S / 4)
        return not self.over

    def signal(self, number: int) -> None:
        with suppress(ProcessLookupError):
            self.process.send_signal(number)

    def interrupt(self) -> None:
        """Ctrl-C: to its whole group, as a terminal sends it."""
        with suppress(ProcessLookupError):
            os.killpg(self.pid, signal.SIGINT)

    def close_reader(self) -> None:
        """Who reads its standard error is gone."""
        with self._reading:
            if self._reader >= 0:
                os.close(self._reader)
                self._reader = -1

    def ended(self, limit_s: float) -> int | None:
        """Its exit code; None if it is not over ``limit_s`` after it began."""
        with suppress(subprocess.TimeoutExpired):
            code = self.process.wait(max(0.0, limit_s - self.seconds))
            self._threads[0].join(2)  # what it said last
            return code
        return None

    def _read(self) -> None:
        import select

        while True:
            with self._reading:
                if self._reader < 0:
                    return
                ready = select.select([self._reader], [], [], 0)[0]
                piece = os.read(self._reader, 65536) if ready else None
            if piece == b"":
                return
            if piece is None:
                time.sleep(_LOOK_EVERY_S / 2)
            else:
                self._said += piece

    def _watch(self) -> None:
        while not self.over:
            if self.stage == "train":
                for host, worker in processes.workers().items():
                    if processes.traced_bytes(worker) > _HEADER_BYTES:
                        self.traced.add(host)
            time.sleep(0.2)
