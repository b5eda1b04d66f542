"""A relay as a process: start, watch and stop it from the process that runs a campaign."""

from __future__ import annotations

import json
import select
import subprocess
import sys
import time
from collections.abc import Mapping
from pathlib import Path
from typing import IO, cast

import e2c_dl
from e2c_dl.emulation.relay.config import RelayConfig
from e2c_dl.emulation.relay.report import RelayReport
from e2c_dl.errors import EmulationError

READY_S = 20.0
STOP_S = 10.0


class RelayProcess:
    """A running relay. It outlives this object until ``stop`` or ``kill``: whoever starts it must end it.

    ``config`` connects hosts h1 and h2, and names a ``control_path``, through which links change while it runs:

    >>> relay = RelayProcess.start(config, {"PATH": os.environ["PATH"]}, Path("relay.log"))
    >>> at_ns = RelayControl(config.control_path).apply({("h1", "h2"): Link(rate_bps=5e6, delay_s=0.02)}, {})
    >>> report = relay.stop()
    >>> report["final"], report["changes"], report["links"][0]["src"]
    (True, 1, 'h1')
    """

    def __init__(self, process: subprocess.Popen[str], config: RelayConfig, stderr_path: Path) -> None:
        self._process, self._config, self._stderr_path = process, config, stderr_path

    @classmethod
    def start(
        cls, config: RelayConfig, environ: Mapping[str, str], stderr_path: Path, ready_s: float = READY_S
    ) -> RelayProcess:
        """A relay that is ready: every host has its interface. ``environ`` is its whole environment.

        It gets a process group of its own, so that a Ctrl-C in the terminal does not end it before the campaign does.

        Raises: EmulationError when it says that it cannot, ends, or is not ready after ``ready_s``.
        """
        with stderr_path.open("ab") as stderr:  # appended: a second relay of the run keeps what the first said
            process = subprocess.Popen(
                [sys.executable, "-m", "e2c_dl.emulation.relay.main"],
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                stderr=stderr,
                text=True,
                env=dict(environ),
                cwd=Path(e2c_dl.__file__).parents[1],  # so that the module is found without installing it
                start_new_session=True,
            )
        relay = cls(process, config, stderr_path)
        try:
            relay._wait_ready(ready_s)
        except BaseException:
            relay.kill()
            raise
        return relay

    @property
    def pid(self) -> int:
        return self._process.pid

    def poll(self) -> int | None:
        """Its exit status; None while it runs. A relay that ends by itself has failed."""
        return self._process.poll()

    def is_stopped(self) -> bool:
        """Whether a signal holds it, so that it carries no frames."""
        try:
            status = Path(f"/proc/{self.pid}/stat").read_text(encoding="utf-8", errors="replace")
        except OSError:  # it has ended
            return False
        return status.rpartition(")")[2].split()[0] == "T"

    def report(self) -> RelayReport:
        """Its latest report, at most about a second old. Raises: EmulationError."""
        path = Path(self._config.report_path)
        try:
            return cast(RelayReport, json.loads(path.read_text(encoding="utf-8")))
        except (OSError, ValueError) as error:
            raise EmulationError(f"relay: cannot read its report {path} ({error}); see {self._stderr_path}") from error

    def stop(self, timeout_s: float = STOP_S) -> RelayReport:
        """Ends the relay; its report. Of a relay that had died, the last one that it wrote (``final`` is False).

        Raises: EmulationError when there is no report.
        """
        with self._process:  # at its end this waits for the process, and closes the pipes
            self._process.terminate()
            try:
                self._process.wait(timeout_s)
            except subprocess.TimeoutExpired:
                self._process.kill()
        return self.report()

    def kill(self) -> None:
        """Ends the relay at once, without a report."""
        with self._process:
            self._process.kill()

    def _wait_ready(self, ready_s: float) -> None:
        stdin, stdout = cast("IO[str]", self._process.stdin), cast("IO[str]", self._process.stdout)
        deadline_s = time.monotonic() + ready_s
        try:
            stdin.write(self._config.to_json())
            stdin.close()  # the relay reads to the end
        except BrokenPipeError:
            pass  # it ended early: what it answered says why
        readable, _, _ = select.select([stdout], [], [], max(0.0, deadline_s - time.monotonic()))
        if not readable:
            raise EmulationError(f"relay: not ready after {ready_s:g} s; see {self._stderr_path}")
        line = stdout.readline()
        try:
            answer = json.loads(line)
        except ValueError as error:
            status = self._process.wait()
            raise EmulationError(f"relay: ended with status {status}; see {self._stderr_path}") from error
        if "error" in answer:
            raise EmulationError(answer["error"])
