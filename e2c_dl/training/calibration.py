"""A scenario's compute profile on this host, measured once: what virtual hosts go by.

Each time is the median over repetitions of the seconds of CPU that this thread took, so that other programs on the host
slow the measuring down and not the profile. Batches of several sizes are measured in turn, repetition by repetition:
a processor that changes its clock meanwhile changes all of them alike.
"""

from __future__ import annotations

import dataclasses
import time
from collections.abc import Callable, Sequence

import numpy as np

from e2c_dl.errors import InputError, TrainingError
from e2c_dl.scenario.model import Training
from e2c_dl.strategies.base import Vector
from e2c_dl.training.compute import TorchCompute, make_deterministic
from e2c_dl.worlds.virtual.profile import ComputeProfile, GradientTimes

REPETITIONS = 30
_ROUNDS = 3  # the sizes are measured in turn this often, each for a third of the repetitions
_LEAST_VALUES = 1 << 16  # of a vector: with less, calling costs more than computing


def calibrate(
    training: Training, batch_sizes: Sequence[int] = (), *, repetitions: int = REPETITIONS, machine: str = ""
) -> ComputeProfile:
    """The profile of ``training`` on this host, for ``batch_sizes`` (none: those it asks for, halves and doubles).

    ``machine`` says in words which host that is.

    Makes torch deterministic, on one thread, in the whole process, as it is where hosts train. ``repetitions`` is of
    every measurement, at least.

    Raises: InputError, TrainingError: what is wrong with the model or data; a batch size beyond the training samples.
    """
    make_deterministic()
    alone = dataclasses.replace(training, batch_sizes=(1,), partition="iid", batching="fixed")
    compute = TorchCompute(alone, rank=0, size=1)
    sizes = _sizes(training, batch_sizes, compute.samples)
    return ComputeProfile(
        model=training.model, dtype=training.dtype, parameters=len(compute.parameters),
        buckets=tuple((where.start, where.stop) for where in compute.buckets),
        tensor_shapes=tuple(tuple(shapes) for shapes in compute.tensor_shapes),
        gradients=_gradients(compute, sizes, repetitions), step_s=_step_s(compute, repetitions),
        evaluate_s=_median_s(compute.evaluate, 3), machine=machine,
        **_vectors_s_per_byte(compute.parameters, repetitions),
    )  # fmt: skip


def _sizes(training: Training, asked: Sequence[int], samples: int) -> list[int]:
    """At least two, without which no other size could be told."""
    if asked:
        if beyond := [size for size in asked if not 1 <= size <= samples]:
            has = f"dataset {training.dataset} has {samples} training samples"
            raise InputError(f"batch size {beyond[0]}: {has}; write less")
        return sorted(set(asked))
    own = set(training.batch_sizes)
    around = own | {max(1, size // 2) for size in own} | {2 * size for size in own}
    return sorted({min(size, samples) for size in around})


def _gradients(compute: TorchCompute, sizes: Sequence[int], repetitions: int) -> dict[int, GradientTimes]:
    measured: dict[int, list[list[float]]] = {size: [] for size in sizes}
    for _ in range(_ROUNDS):
        for size in sizes:
            measured[size] += compute.measured(size, -(-repetitions // _ROUNDS))
    medians = {size: [float(each) for each in np.median(own, axis=0)] for size, own in measured.items()}
    if not all(any(own) for own in medians.values()):
        raise TrainingError(
            f"a gradient over {min(medians)} samples took 0 s by this host's clock of CPU time, which is too coarse; "
            "calibrate a larger model, or on another host"
        )
    return {
        size: GradientTimes(data_s=own[0], forward_s=own[1], backward_s=tuple(own[2:])) for size, own in medians.items()
    }


def _step_s(compute: TorchCompute, repetitions: int) -> float:
    compute.gradients[:] = 1e-6  # not zero: it is what a step usually meets
    compute.step()  # the first makes room for what the optimizer remembers
    return _median_s(compute.step, repetitions)


def _vectors_s_per_byte(like: Vector, repetitions: int) -> dict[str, float]:
    """Seconds per byte of the written vector, on vectors as long as the model."""
    into = np.full(max(len(like), _LEAST_VALUES), 1.0, dtype=like.dtype)
    values = np.full_like(into, 0.5)

    def copy() -> None:
        into[:] = values

    def accumulate() -> None:
        np.add(into, values, out=into)  # as a Worker accumulates with factor 1

    def scale() -> None:
        np.multiply(into, 1.0, out=into)

    verbs = {"copy": copy, "accumulate": accumulate, "scale": scale}
    return {f"{name}_s_per_byte": _median_s(verb, repetitions) / into.nbytes for name, verb in verbs.items()}


def _median_s(call: Callable[[], object], repetitions: int) -> float:
    call()  # the first touches fresh memory
    seconds = []
    for _ in range(repetitions):
        begin_ns = time.thread_time_ns()  # CPU time of this thread: other programs do not count
        call()
        seconds.append((time.thread_time_ns() - begin_ns) / 1e9)
    return float(np.median(seconds))
