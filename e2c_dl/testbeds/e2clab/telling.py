"""What Ansible's tasks say: of each the hosts that it waits for, of those that fail the line that says why.

EnOSlib runs plays silently if asked to (``ansible_stdout="noop"``), by a callback that does nothing; while a session
lasts, one that tells of each task, host by host, stands in its place.
"""

from __future__ import annotations

import errno
import importlib
import os
import signal
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from typing import Any

from e2c_dl.archive.records import Doing
from e2c_dl.errors import E2cDlError, Interrupted

_SAYING = ("stderr", "module_stderr", "msg", "reason", "exception", "module_stdout")
"""Keys of a result of Ansible's that may say why, the most telling first."""

_SAYING_NOTHING = (
    "See stdout/stderr for the exact error",  # Ansible, of a module that broke
    "Error is not recoverable: exiting now",  # tar
    "Exiting with failure status due to previous errors",
    "--help' for more information",  # docker
)

_OF_THE_SYSTEM = tuple(
    os.strerror(number)
    for number in (errno.ENOSPC, errno.EDQUOT, errno.EROFS, errno.ENOMEM, errno.EIO, errno.EMFILE, errno.ENFILE)
)
"""Errors that a machine has, whatever was tried."""


def one_line(error: BaseException) -> str:
    """``error`` as one readable line: Ansible's failed tasks by host, else type and text."""
    results = error.args[0] if error.args and isinstance(error.args[0], list) else []
    said: dict[str, list[str]] = {}  # what -> the hosts that said so
    for result in results:
        payload = getattr(result, "payload", None)
        if isinstance(payload, dict):
            said.setdefault(telling(payload), []).append(str(getattr(result, "host", "?")))
    text = (
        "; ".join(f"{', '.join(hosts)}: {what}" for what, hosts in said.items()) or f"{type(error).__name__}: {error}"
    )
    return " ".join(text.split())[:300]  # Ansible's results hold all that a task printed


def telling(payload: Mapping[str, Any]) -> str:
    """The line that says most of why a task failed: the first that names an error of the system, else the last.

    What only points to other lines is passed over, if there are any.
    """
    lines = [line for key in _SAYING for line in str(payload.get(key) or "").splitlines() if line.strip()]
    reasons = [line for line in lines if any(reason in line for reason in _OF_THE_SYSTEM)]
    if reasons:
        return reasons[0]
    first = next((key for key in _SAYING if payload.get(key)), None)  # a later key repeats, or says less
    own = str(payload[first]).strip().splitlines() if first else [str(dict(payload))]
    for some in (own, lines):
        telling = [line for line in some if not any(empty in line for empty in _SAYING_NOTHING)]
        if telling:
            return telling[-1]
    return (own or ["no output"])[-1]


SILENT = ("enoslib.api", "NoopCallback")
"""The name that is replaced: (module, class)."""


class Tasks:
    """Counts hosts per task: a host that begins is waited for, until it has a result."""

    def __init__(self, tell: Callable[[Doing], None]) -> None:
        self._tell = tell
        self.failed: Callable[[str, str], None] = lambda *_: None  # hears of each host that fails: which, and why
        self._task = ""
        self._waiting: dict[str, bool] = {}  # host -> whether its result is missing

    def begin(self, task: str) -> None:
        self._task, self._waiting = task, {}
        self._tell(Doing(what=task))

    def started(self, host: str) -> None:
        self._waiting.setdefault(host, True)

    def ended(self, host: str) -> None:
        self._waiting[host] = False
        waiting, of = tuple(name for name, missing in self._waiting.items() if missing), len(self._waiting)
        self._tell(Doing(what=self._task, done=of - len(waiting), of=of, waiting=waiting))


@contextmanager
def told(tasks: Tasks) -> Iterator[None]:
    """While in it, ``tasks`` hears of every task that EnOSlib runs."""
    api = importlib.import_module(SILENT[0])
    silent = getattr(api, SILENT[1])
    setattr(api, SILENT[1], lambda: _callback(silent, tasks))
    try:
        yield
    finally:
        setattr(api, SILENT[1], silent)


def _unswallowed(act: Callable[..., None], *said: str) -> None:
    """``act``; what ends a step while it tells is raised again a moment later: Ansible drops what callbacks raise."""
    try:
        act(*said)
    except E2cDlError:
        signal.setitimer(signal.ITIMER_REAL, Interrupted.again_s)  # the walk over the steps raises it then


def _callback(silent: type[Any], tasks: Tasks) -> Any:
    class Telling(silent):  # type: ignore[misc]
        """Ansible calls these by name, in the process that runs the play."""

        def v2_playbook_on_task_start(self, task: Any, is_conditional: bool) -> None:
            _unswallowed(tasks.begin, task.get_name())

        def v2_runner_on_start(self, host: Any, task: Any) -> None:
            _unswallowed(tasks.started, host.get_name())

        def v2_runner_on_ok(self, result: Any) -> None:
            _unswallowed(tasks.ended, result._host.get_name())

        def v2_runner_on_failed(self, result: Any, ignore_errors: bool = False) -> None:
            _unswallowed(tasks.ended, result._host.get_name())
            if not ignore_errors:
                _unswallowed(tasks.failed, result._host.get_name(), telling(result._result))

        def v2_runner_on_unreachable(self, result: Any) -> None:
            self.v2_runner_on_failed(result)

        v2_runner_on_skipped = v2_runner_on_ok

    return Telling()
