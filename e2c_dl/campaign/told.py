"""The console that a run tells, made one that the run outlives: whatever fails in it is remembered, once."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from e2c_dl.archive.records import Doing, Progress
from e2c_dl.campaign.request import Console
from e2c_dl.errors import E2cDlError


class Outlived:
    """Conforms to Console. Silent after the first failure of ``console``, which is ``failure`` from then on.

    What ends a step from outside may come while it tells: that passes.
    """

    def __init__(self, console: Console) -> None:
        self._console = console
        self.failure: str | None = None
        self.waiting: tuple[str, ...] = ()  # the hosts that were waited for when that was last told

    def step(self, name: str, what: str) -> None:
        self.waiting = ()
        self._tell(self._console.step, name, what)

    def done(self, name: str, seconds: float) -> None:
        self._tell(self._console.done, name, seconds)

    def failed(self, name: str, why: str) -> None:
        self._tell(self._console.failed, name, why)

    def say(self, line: str) -> None:
        self._tell(self._console.say, line)

    def doing(self, doing: Doing) -> None:
        self.waiting = doing.waiting
        self._tell(self._console.doing, doing)

    def progress(self, progress: Progress) -> None:
        self._tell(self._console.progress, progress)

    def _tell(self, tell: Callable[..., None], *what: Any) -> None:
        if self.failure is not None:
            return
        try:
            tell(*what)
        except E2cDlError:
            raise
        except (Exception, SystemExit) as error:  # noqa: BLE001 - SystemExit: libraries end at a broken pipe
            self.failure = f"nobody heard the run any more: {type(error).__name__}: {error}"
