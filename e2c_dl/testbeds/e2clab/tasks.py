"""Ansible's tasks as they go on, host by host: what a run tells while plays take their time.

EnOSlib runs plays silently if asked to (``ansible_stdout="noop"``), by a callback that does nothing; while a run lasts,
one that tells stands in its place.
"""

from __future__ import annotations

import importlib
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

from e2c_dl.archive.records import Doing

SILENT = ("enoslib.api", "NoopCallback")
"""The name that is replaced: (module, class)."""


class Tasks:
    """Counts hosts per task: a host that begins is waited for, until it has a result."""

    def __init__(self, tell: Callable[[Doing], None]) -> None:
        self._tell = tell
        self._task = ""
        self._waiting: dict[str, bool] = {}  # host -> whether its result is missing

    def begin(self, task: str) -> None:
        self._task, self._waiting = task, {}
        self._tell(Doing(what=task))

    def started(self, host: str) -> None:
        self._waiting.setdefault(host, True)

    def ended(self, host: str) -> None:
        self._waiting[host] = False
        waiting = tuple(name for name, missing in self._waiting.items() if missing)
        self._tell(
            Doing(what=self._task, done=len(self._waiting) - len(waiting), of=len(self._waiting), waiting=waiting)
        )


@contextmanager
def told(tell: Callable[[Doing], None]) -> Iterator[None]:
    """While in it, ``tell`` hears of every task that EnOSlib runs."""
    api = importlib.import_module(SILENT[0])
    silent = getattr(api, SILENT[1])
    setattr(api, SILENT[1], lambda: _callback(silent, Tasks(tell)))
    try:
        yield
    finally:
        setattr(api, SILENT[1], silent)


def _callback(silent: type[Any], tasks: Tasks) -> Any:
    class Telling(silent):  # type: ignore[misc]
        """Ansible calls these by name, in the process that runs the play."""

        def v2_playbook_on_task_start(self, task: Any, is_conditional: bool) -> None:
            tasks.begin(task.get_name())

        def v2_runner_on_start(self, host: Any, task: Any) -> None:
            tasks.started(host.get_name())

        def v2_runner_on_ok(self, result: Any) -> None:
            tasks.ended(result._host.get_name())

        def v2_runner_on_failed(self, result: Any, ignore_errors: bool = False) -> None:
            tasks.ended(result._host.get_name())

        v2_runner_on_skipped = v2_runner_on_unreachable = v2_runner_on_ok

    return Telling()
