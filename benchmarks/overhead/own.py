"""Time that the tracer itself takes of the thread that trains, hook by hook.

::

    loader.__next__      |hook|  the loader's own  |hook|        what a hook wraps is the script's, and is not counted;
    optimizer's hooks                                    |hook|  what a hook calls is, whatever it is

Time is the machine's, whose clock costs a tenth of the processor's: where somebody else had the processor meanwhile, an
iteration stands out, and of iterations counts the median. What reading clocks costs itself is measured, too: by the
same clocks at the same places around functions that do nothing (``empty``).
"""

from __future__ import annotations

import threading
import time
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any
from unittest import mock

from e2c_dl.tracing.hooks.backward import Readiness
from e2c_dl.tracing.hooks.outermost import After, Before
from e2c_dl.tracing.hooks.patches import Patches

Function = Callable[..., Any]


class Own:
    """Nanoseconds by hook, lap by lap. ``empty``: hooks do nothing: what the clocks cost."""

    def __init__(self, *, empty: bool = False) -> None:
        self._empty = empty
        self.laps: list[Counter[str]] = []
        self._turns: list[tuple[str | None, int]] = []  # (hook that begins; None: one ends, when)
        self._thread = threading.get_ident()

    def lap(self) -> None:
        """An iteration has ended."""
        taken: Counter[str] = Counter()
        inside = [""]
        since_ns = 0
        for name, now_ns in self._turns:
            taken[inside[-1]] += now_ns - since_ns
            since_ns = now_ns
            if name is None:
                inside.pop()
            else:
                inside.append(name)
        del taken[""]
        self.laps.append(taken)
        self._turns.clear()

    def timed(self, name: str, function: Function) -> Function:
        """``function``, whose time is counted under ``name``; under the empty name it is the script's."""
        clock, thread, turned, ident = time.perf_counter_ns, self._thread, self._turns.append, threading.get_ident

        def call(*args: Any, **kwargs: Any) -> Any:
            if ident() != thread:
                return function(*args, **kwargs)
            turned((name, clock()))
            try:
                return function(*args, **kwargs)
            finally:
                turned((None, clock()))

        return call

    def of_hook(self, name: str, hook: Function) -> Function:
        """``hook``, which wraps nothing, timed under ``name``."""
        return self.timed(name, _nothing if self._empty else hook)

    def around(self, name: str, original: Function, hooked: Callable[[Function], Function]) -> Function:
        """``hooked`` of ``original``, timed under ``name`` but for what is the original's."""
        inner = self.timed("", original)
        return self.timed(name, inner if self._empty else hooked(inner))

    @contextmanager
    def installed(self) -> Iterator[None]:
        """Hooks that are put in place meanwhile are timed."""
        from torch.optim import optimizer

        with (
            mock.patch.object(Patches, "wrap", self._wrapping(Patches.wrap)),
            mock.patch.object(Before, "__call__", self._method("module", Before.__call__)),
            mock.patch.object(After, "__call__", self._method("module", After.__call__)),
            mock.patch.object(Readiness, "_learning", self._making("gradient", Readiness._learning)),
            mock.patch.object(Readiness, "_settled", self._making("gradient", Readiness._settled)),
            self._registering(optimizer, "register_optimizer_step_pre_hook"),
            self._registering(optimizer, "register_optimizer_step_post_hook"),
        ):
            yield

    def _wrapping(self, wrap: Function) -> Function:
        def around_timed(
            patches: Patches, owner: Any, name: str, around: Callable[[Function], Function], *others: Any
        ) -> None:
            wrap(patches, owner, name, lambda original: self.around(name, original, around), *others)

        return around_timed

    def _making(self, name: str, making: Function) -> Function:
        return lambda *args: self.of_hook(name, making(*args))

    def _method(self, name: str, method: Function) -> Function:
        timed = self.of_hook(name, method)

        def call(hook: Any, *args: Any) -> Any:
            return timed(hook, *args)

        return call

    def _registering(self, module: Any, name: str) -> Any:
        original = getattr(module, name)
        return mock.patch.object(module, name, lambda hook: original(self.of_hook(name.split("_")[3], hook)))


def _nothing(*_args: Any, **_kwargs: Any) -> None:
    pass
