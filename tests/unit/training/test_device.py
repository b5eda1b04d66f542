"""Mathematics on a device, timed by marks: on the processor as a device, and on one that works behind a queue."""

from __future__ import annotations

import dataclasses
import queue
import threading
import time
from collections import Counter
from collections.abc import Callable
from itertools import pairwise

import numpy as np
import pytest
import torch

from e2c_dl.errors import InputError
from e2c_dl.scenario.model import Training
from e2c_dl.trace.model import Phase
from e2c_dl.training.compute import TorchCompute, torch_facts
from e2c_dl.training.device.choice import compute_on, cuda_problem, device_facts
from e2c_dl.training.device.compute import DeviceCompute
from e2c_dl.training.device.events import Event, HostEvents
from e2c_dl.training.device.timeline import Timeline

pytestmark = pytest.mark.usefixtures("deterministic_torch")

TRAINING = Training(
    strategy="allreduce", model="cnn", dataset="digits", iterations=1, batch_sizes=(8, 4), learning_rate=0.1,
    momentum=0.9, seed=3, dtype="float64", evaluate_every=0, bucket_bytes=16384,
)  # fmt: skip
Segment = tuple[Phase, int, int, int]


def wrong_clock() -> int:
    """A device's, that began some time ago and gains."""
    return 123_456_789 + round(time.monotonic_ns() * 1.00005)


class Passed:
    """A mark that the queue's thread passes when it comes to it."""

    def __init__(self) -> None:
        self._passed = threading.Event()
        self.at_ns = 0

    def wait(self) -> None:
        self._passed.wait()

    def ms_until(self, later: Event) -> float:
        assert isinstance(later, Passed)
        return (later.at_ns - self.at_ns) / 1e6

    def now(self) -> None:
        self.at_ns = wrong_clock()
        self._passed.set()


class QueueEvents:
    """A device that does one thing after the other in a thread of its own, whoever asks does not wait."""

    device = torch.device("cpu")

    def __init__(self) -> None:
        self._asked: queue.Queue[Callable[[], object]] = queue.Queue()
        threading.Thread(target=self._work, daemon=True).start()

    def set(self) -> Event:
        event = Passed()
        self._asked.put(event.now)
        return event

    def ask(self, work: Callable[[], object]) -> None:
        self._asked.put(work)

    def _work(self) -> None:
        while True:
            self._asked.get()()


def gradients(compute: TorchCompute, count: int) -> tuple[list[np.ndarray], list[Segment]]:
    found: list[np.ndarray] = []
    segments: list[Segment] = []
    for iteration in range(count):
        compute.gradient(iteration, 8, lambda *segment: segments.append(segment))
        found.append(compute.gradients.copy())
        compute.step()
    return found, segments


@pytest.mark.parametrize("model", ["cnn", "transformer"])
def test_a_device_computes_what_the_processor_does(model: str) -> None:
    training = dataclasses.replace(TRAINING, model=model)
    plain, there = (
        TorchCompute(training, rank=0, size=2),
        DeviceCompute(training, HostEvents(wrong_clock), rank=0, size=2),
    )
    (expected, _), (got, _) = gradients(plain, 3), gradients(there, 3)
    assert all((a == b).all() for a, b in zip(expected, got, strict=True))
    assert (plain.parameters == there.parameters).all()
    assert plain.evaluate() == there.evaluate()


def test_every_piece_is_timed_one_after_the_other() -> None:
    compute = DeviceCompute(TRAINING, HostEvents(wrong_clock), rank=0, size=2)
    begin_ns = time.monotonic_ns()
    _, segments = gradients(compute, 3)
    count = len(compute.buckets)
    assert count > 1
    assert Counter(phase for phase, *_ in segments) == {
        Phase.DATA: 3, Phase.FORWARD: 3, Phase.BACKWARD: 3 * count, Phase.COPY: 3 * (count + 1),
    }  # fmt: skip
    first = segments[: 3 + 2 * count]
    assert [(phase, bucket) for phase, bucket, *_ in first[3:]] == [
        (phase, bucket) for bucket in range(count) for phase in (Phase.BACKWARD, Phase.COPY)
    ]
    open_ns = compute.uncertainty_ns + 1
    for earlier, later in pairwise(segments):
        assert begin_ns <= earlier[2] <= earlier[3] <= later[2] + open_ns
    assert segments[-1][3] <= time.monotonic_ns() + open_ns


def test_others_read_a_bucket_when_it_is_announced() -> None:
    compute = DeviceCompute(TRAINING, HostEvents(), rank=0, size=2)
    seen: dict[int, np.ndarray] = {}

    def announced(phase: Phase, bucket: int, _start_ns: int, _end_ns: int) -> None:
        if phase is Phase.BACKWARD:
            seen[bucket] = compute.gradients[compute.buckets[bucket]].copy()

    compute.gradient(0, 8, announced)
    for bucket, values in seen.items():
        assert (values == compute.gradients[compute.buckets[bucket]]).all()
        assert values.any()


def test_parameters_that_others_have_written_are_computed_with() -> None:
    plain, there = (
        TorchCompute(TRAINING, rank=0, size=2),
        DeviceCompute(TRAINING, HostEvents(), rank=0, size=2),
    )
    for compute in (plain, there):
        compute.parameters[:] *= 0.5
        compute.gradient(0, 8, lambda *_: None)
    assert (plain.gradients == there.gradients).all()


def test_calibration_and_pacing_work_on_a_device() -> None:
    compute = DeviceCompute(TRAINING, HostEvents(), rank=0, size=2)
    before = compute.parameters.copy()
    segments_s = compute.calibrate(2)
    assert len(segments_s) == 1 + len(compute.buckets)
    assert all(each >= 0 for each in segments_s)
    assert (compute.parameters == before).all()


def test_marks_of_a_device_that_works_later_are_placed_on_the_hosts_clock() -> None:
    device = QueueEvents()
    line = Timeline(device)
    for _ in range(20):
        true_ns: list[int] = []
        begun = line.mark()
        device.ask(lambda: time.sleep(0.002))
        device.ask(lambda true_ns=true_ns: true_ns.append(time.monotonic_ns()))  # type: ignore[misc]
        done = line.mark()
        assert not true_ns, "nobody waited"
        line.wait(begun)
        line.wait(done)
        placed_ns = line.host_ns(done)
        line.count_from(done)
        # The device looked at the host's clock before it passed the mark; the thread may be held up between.
        assert true_ns[0] - line.uncertainty_ns <= placed_ns <= time.monotonic_ns() + line.uncertainty_ns
    assert line.uncertainty_ns < 1_000_000_000


def test_a_host_without_gpu_says_so_in_one_line() -> None:
    problem = cuda_problem()
    if not problem:
        pytest.skip("this host has a GPU")
    assert "\n" not in problem
    with pytest.raises(InputError, match=r"^device cuda: .* or write device: cpu$"):
        compute_on(dataclasses.replace(TRAINING, device="cuda"), rank=0, size=2)


def test_the_processor_is_what_one_computes_on_by_default() -> None:
    compute = compute_on(TRAINING, rank=0, size=2)
    assert type(compute) is TorchCompute
    assert device_facts(TRAINING, 0) == torch_facts()
