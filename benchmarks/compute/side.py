"""The process that is made slower: iterations at the speeds that are asked for on standard input, one line each.

In: ``{"speed": 0.25 or null, "iterations": 25}``. Out: the seconds of each iteration, a JSON list. The first line out
is the gradient's calibrated CPU seconds. With ``schedule`` in place of ``speed``: (seconds, factor) points, a period
and the base; out is then {"asked_s": ..., "took_s": ...} of all iterations together.
"""

from __future__ import annotations

import json
import sys
import time
from typing import Any

from e2c_dl.dynamics.faults import BegunFaults
from e2c_dl.dynamics.speed import ChangingSpeed, ConstantSpeed, HostSpeed
from e2c_dl.scenario.model import Training
from e2c_dl.scenario.schedule import Schedule
from e2c_dl.training.compute import TorchCompute, make_deterministic

TRAINING = Training(
    strategy="allreduce", model="cnn", dataset="digits", iterations=1, batch_sizes=(64,), learning_rate=0.01,
    momentum=0.9, seed=1, dtype="float32", evaluate_every=0, bucket_bytes=1 << 16,
)  # fmt: skip
CALIBRATIONS = 40


def main() -> None:
    """Serve until standard input ends."""
    make_deterministic()
    compute = TorchCompute(TRAINING, rank=0, size=1)
    cpu_s = sum(compute.calibrate(CALIBRATIONS))
    print(cpu_s, flush=True)
    for line in sys.stdin:
        asked = json.loads(line)
        if "schedule" in asked:
            answer: Any = _on_schedule(compute, cpu_s, asked)
        else:
            compute.pacing.speed = None if asked["speed"] is None else ConstantSpeed(asked["speed"])
            answer = [_iteration(compute) for _ in range(asked["iterations"])]
        print(json.dumps(answer), flush=True)


def _iteration(compute: TorchCompute) -> float:
    begin_s = time.monotonic()
    compute.gradient(0, TRAINING.batch_sizes[0], lambda *_: None)
    compute.step()
    return time.monotonic() - begin_s


def _on_schedule(compute: TorchCompute, cpu_s: float, asked: dict[str, Any]) -> dict[str, float]:
    """Gradients one after the other, without a pause: they take the time in which the schedule yields their work."""
    schedule = Schedule(points=tuple((at_s, factor) for at_s, factor in asked["schedule"]), period_s=asked["period_s"])
    host = HostSpeed(base=asked["base"], schedule=schedule)
    speed = ChangingSpeed(host, lambda *_: None, lambda _: None)
    compute.pacing.speed = speed
    begin_s = time.monotonic()
    speed.began(time.monotonic_ns())
    for _ in range(asked["iterations"]):
        _iteration(compute)
    took_s = time.monotonic() - begin_s
    asked_s = host.computed(host.cold, cpu_s * asked["iterations"], BegunFaults())[-1].time_s
    return {"asked_s": asked_s, "took_s": took_s}


if __name__ == "__main__":
    main()
