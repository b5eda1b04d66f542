"""The tracer of this process: waits for a first sign of training, then has the rank's session; told of imports.

::

    torch is imported        its hooks are put in place; nothing is recorded
    a first sign             an optimizer is made, a process group or Horovod is initialised, a third backward without
                             any optimizer begins: a Session begins
    a fork                   never records for its parent; it may become a rank of its own if its parent was none
    the process ends         the session is ended: atexit, or multiprocessing's own way out
"""

from __future__ import annotations

import atexit
import os
import sys
from collections.abc import Callable, Mapping
from multiprocessing import util
from typing import Any

from e2c_dl.tracing.ends import UNKNOWN, Ending, told
from e2c_dl.tracing.hooks.patches import Patches
from e2c_dl.tracing.session import Session
from e2c_dl.tracing.settings import RANK_PROCESS, Settings


class Tracer:
    """One per process. Hooks ask it for :attr:`session`, which is None as long as there is nothing to record."""

    def __init__(self, settings: Settings, hooks: Mapping[str, Hooks]) -> None:
        self.settings = settings
        self._hooks = hooks
        self.session: Session | None = None
        self._installed: dict[Install, Patches] = {}
        self.run_by: int | None = None  # the thread that is in a run which the script bounds itself
        self.steps = False  # an optimizer was made: its steps end iterations
        self._failure = ""
        self._ending: Ending | None = None
        self._left: util.Finalize | None = None
        self._limitations: list[str] = []  # of before the session
        self.parts: dict[str, Any] = {}  # what hooks share, by name
        self._handled: BaseException | None = None  # when it was forked, and is no failure of its own
        os.register_at_fork(after_in_child=self._forked)

    def sign(self) -> Session:
        """The session of this process, which begins now if there is none."""
        if self.session is None:
            self.session = Session(self.settings)
            if self._ending is None:
                self._ending = Ending()
                atexit.register(self._exit)
            if self._left is None or not self._left.still_active():  # a child of multiprocessing has left it out
                self._left = util.Finalize(None, self._leave, exitpriority=100)  # and leaves without atexit
            for sentence in self._limitations:
                self.session.limited(sentence)
        return self.session

    def limited(self, sentence: str) -> None:
        """One more sentence of what cannot be seen, of this session or the one to come."""
        if self.session is None:
            self._limitations.append(sentence)
        else:
            self.session.limited(sentence)

    def opened(self, session: Session) -> None:
        """``session``'s rank is known: what this process begins is no rank."""
        if session.opened:
            os.environ[RANK_PROCESS] = str(os.getpid())

    def imported(self, name: str) -> None:
        """A module that can be traced was imported."""
        for hooks in self._hooks[name]:
            self._install(hooks)

    def install(self, hooks: Install) -> None:
        """These hooks are in place, as they may be already."""
        if hooks not in self._installed:
            self._install(hooks)

    def detach(self) -> None:
        """Every hook is taken away; what is under way is not recorded."""
        for patches in self._installed.values():
            patches.undo()  # what they wrap is put back
        if self.session is not None:
            self.session.rest(True)

    def attach(self) -> None:
        """Hooks that were taken away are back."""
        for install in tuple(self._installed):
            self._install(install)
        if self.session is not None:
            self.session.rest(False)

    def end(self) -> None:
        """The session is over, if there is one."""
        if self.session is not None:
            self.session.end(self._failure)

    def _exit(self) -> None:
        """Python ends."""
        failure = self._ending.failure() if self._ending is not None else ""
        if failure is None:
            self.limited(UNKNOWN)
        self._failure = failure or ""
        self.end()

    def _leave(self) -> None:
        """A child of multiprocessing ends; what it raised is told to nobody before."""
        error = sys.exc_info()[1]
        if isinstance(error, SystemExit):  # torch's spawn hands what was raised to the parent, and exits
            within = error.__context__
            error = None if not error.code else error if within is None or within is self._handled else within
        if error is not None and error is not self._handled:
            self._failure = told(error)
        self.end()

    def _install(self, install: Install) -> None:
        patches = Patches()
        install(self, patches)
        self._installed[install] = patches

    def _forked(self) -> None:
        self._handled = sys.exc_info()[1]
        if self.session is None:
            return
        self.session.abandon()
        if not self.session.opened:
            self.session = self.run_by = None


Install = Callable[[Tracer, Patches], None]
"""Puts hooks in place, by patches that can be undone."""

Hooks = tuple[Install, ...]
