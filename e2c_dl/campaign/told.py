"""The consoles that a run tells, made ones that the run outlives: whatever fails in one is remembered, once."""

from __future__ import annotations

from pathlib import Path

import msgspec

from e2c_dl.archive.records import Doing, Progress
from e2c_dl.campaign.request import Console
from e2c_dl.errors import E2cDlError
from e2c_dl.redaction import Redactor, without_found


class Outlived:
    """Conforms to Console, tells several. One that failed is not told any more; ``failures`` says why.

    What ends a step from outside may come while it tells: that passes.
    """

    def __init__(self, *consoles: Console) -> None:
        self._consoles = list(consoles)
        self.failures: list[str] = []
        self.redactor = Redactor()  # of what they must not be told
        self.waiting: tuple[str, ...] = ()  # the hosts that were waited for when that was last told

    def leave(self, console: Console | None) -> None:
        """``console`` is not told any more."""
        self._consoles = [each for each in self._consoles if each is not console]

    def begun(self, run_id: str, archive: Path) -> None:
        self._tell("begun", run_id, archive)

    def step(self, name: str, what: str) -> None:
        self.waiting = ()
        self._tell("step", name, what)

    def done(self, name: str, seconds: float) -> None:
        self._tell("done", name, seconds)

    def failed(self, name: str, why: str) -> None:
        self._tell("failed", name, why)

    def say(self, line: str) -> None:
        self._tell("say", line)

    def doing(self, doing: Doing) -> None:
        self.waiting = doing.waiting
        self._tell("doing", msgspec.structs.replace(doing, what=without_found(self.redactor.text(doing.what))))

    def progress(self, progress: Progress) -> None:
        self._tell("progress", progress)

    def _tell(self, method: str, *what: object) -> None:
        clean = [without_found(self.redactor.text(each)) if isinstance(each, str) else each for each in what]
        for console in tuple(self._consoles):
            try:
                getattr(console, method)(*clean)
            except E2cDlError:
                raise
            except (Exception, SystemExit) as error:  # noqa: BLE001 - SystemExit: libraries end at a broken pipe
                self.leave(console)
                self.failures.append(f"nobody heard the run any more: {type(error).__name__}: {error}")
