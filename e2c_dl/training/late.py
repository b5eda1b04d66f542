"""Mathematics whose batches come later, and whose steps take longer, than they would by themselves.

::

    DATA   |..late..|--drawn--|  FORWARD ...      STEP   |..late..|--step--|
"""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Sequence

from e2c_dl.errors import TrainingError
from e2c_dl.scenario.model import FaultKind
from e2c_dl.strategies.base import Compute, Evaluation, OnSegment, TensorShapes, Vector
from e2c_dl.trace.model import Phase


class LateCompute:
    """``compute``, late by ``later_s`` seconds, asked for LATE_DATA and LATE_STEP as each begins."""

    def __init__(self, compute: Compute, later_s: Callable[[FaultKind], float]) -> None:
        self._compute, self._later_s = compute, later_s
        self._stopped = threading.Event()  # a sleep that stop() can end

    @property
    def parameters(self) -> Vector:
        return self._compute.parameters

    @property
    def gradients(self) -> Vector:
        return self._compute.gradients

    @property
    def buckets(self) -> Sequence[slice]:
        return self._compute.buckets

    @property
    def tensor_shapes(self) -> Sequence[TensorShapes]:
        return self._compute.tensor_shapes

    def gradient(self, iteration: int, samples: int, on_segment: OnSegment) -> float:
        """As of ``compute``, whose DATA begins before it is late. Raises: TrainingError if stopped."""
        begin_ns = time.monotonic_ns()
        self._wait(FaultKind.LATE_DATA)

        def told(phase: Phase, bucket: int, start_ns: int, end_ns: int) -> None:
            on_segment(phase, bucket, begin_ns if phase is Phase.DATA else start_ns, end_ns)

        return self._compute.gradient(iteration, samples, told)

    def step(self) -> None:
        self._wait(FaultKind.LATE_STEP)
        self._compute.step()

    def evaluate(self) -> Evaluation:
        return self._compute.evaluate()

    def stop(self) -> None:
        """Wake the thread that is late, and fail whatever is late after that: training is over."""
        self._stopped.set()

    def _wait(self, kind: FaultKind) -> None:
        if (later_s := self._later_s(kind)) and self._stopped.wait(later_s):
            raise TrainingError("training was stopped while a batch or a step was late")
