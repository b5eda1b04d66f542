"""Profile of one host's computing, measured once and stored: what virtual hosts go by.

::

    gradient of b samples   | data | forward | backward bucket 0 | backward bucket 1 | ...     s, by batch size
    step, evaluate          s, each time
    copy, accumulate, scale s per byte of the vector that is written

Between measured batch sizes times are interpolated, beyond them extrapolated, along the line through the two nearest.
A host that is f times slower by design takes f times as long (:class:`HostModel`).
"""

from __future__ import annotations

import difflib
import json
from bisect import bisect_left
from collections.abc import Callable, Collection, Mapping
from dataclasses import asdict, dataclass, field, fields
from math import prod
from typing import Annotated, Any

import msgspec

from e2c_dl.codec import convert
from e2c_dl.dynamics.speed import Speed
from e2c_dl.errors import InputError
from e2c_dl.scenario.schedule import Schedule
from e2c_dl.trace.model import Phase
from e2c_dl.worlds.virtual.pace import Pace

FIXED = "fixed"
"""The batching that leaves batches as they are."""


Seconds = Annotated[float, msgspec.Meta(ge=0, le=1e6)]
Count = Annotated[int, msgspec.Meta(ge=1, le=1 << 48)]
Index = Annotated[int, msgspec.Meta(ge=0, le=1 << 48)]

REMEDY = "write a number as `e2c-dl calibrate` does, or calibrate again"


@dataclass(frozen=True, kw_only=True)
class GradientTimes:
    """One gradient of a given batch size, segment by segment, in seconds."""

    data_s: Seconds
    forward_s: Seconds
    backward_s: tuple[Seconds, ...]  # by bucket, in the order in which backward completes them


@dataclass(frozen=True, kw_only=True)
class ComputeProfile:
    """One model on one host. Raises: InputError if it contradicts itself."""

    model: str
    dtype: str  # float32 or float64
    parameters: Count  # length of the flat vector
    buckets: tuple[tuple[Index, Index], ...]  # begin and end of each in the flat vector, by index
    gradients: Mapping[Count, GradientTimes]  # by batch size
    tensor_shapes: tuple[tuple[tuple[Count, ...], ...], ...] = ()  # of the tensors in each bucket; empty: not known
    step_s: Seconds = 0.0
    evaluate_s: Seconds = 0.0
    copy_s_per_byte: Seconds = 0.0
    accumulate_s_per_byte: Seconds = 0.0
    scale_s_per_byte: Seconds = 0.0
    machine: str = ""  # where it was measured: processor and torch's build; empty: a profile that does not say

    def __post_init__(self) -> None:
        if not self.gradients:
            raise InputError(f"profile of {self.model}: it holds no batch size; calibrate again")
        for begin, end in self.buckets:
            if not begin < end <= self.parameters:
                wrong = f"bucket {begin}..{end} is none of {self.parameters} parameters"
                raise InputError(f"profile of {self.model}: {wrong}; calibrate again")
        if self.tensor_shapes and len(self.tensor_shapes) != len(self.buckets):
            count = f"tensors of {len(self.tensor_shapes)} buckets, and {len(self.buckets)} buckets"
            raise InputError(f"profile of {self.model}: it has {count}; calibrate again")
        for shapes, (begin, end) in zip(self.tensor_shapes, self.buckets, strict=False):
            if sum(map(prod, shapes)) != end - begin:
                wrong = f"tensors {list(map(list, shapes))} are not {end - begin} values"
                raise InputError(f"profile of {self.model}: {wrong}; calibrate again")
        for samples, times in self.gradients.items():
            if len(times.backward_s) != len(self.buckets):
                count = f"{len(times.backward_s)} times for {len(self.buckets)} buckets"
                raise InputError(f"profile of {self.model}: batch size {samples} has {count}; calibrate again")

    @property
    def slices(self) -> tuple[slice, ...]:
        """The buckets, as a Compute has them."""
        return tuple(slice(begin, end) for begin, end in self.buckets)

    def gradient(self, samples: int) -> GradientTimes:
        """The times of a gradient of ``samples`` samples. Raises: InputError if the profile cannot tell."""
        if samples in self.gradients:
            return self.gradients[samples]
        sizes = sorted(self.gradients)
        if len(sizes) == 1:
            raise InputError(
                f"profile of {self.model}: it knows batches of {sizes[0]} only, not of {samples}; "
                "calibrate with at least two batch sizes"
            )
        upper = min(max(bisect_left(sizes, samples), 1), len(sizes) - 1)
        low, high = sizes[upper - 1], sizes[upper]
        return _between(self.gradients[low], self.gradients[high], (samples - low) / (high - low))

    def check(self, batch_sizes: Collection[int], batching: str) -> None:
        """Raises: InputError, if this cannot tell of a batch size that may come."""
        may_change = batching != FIXED
        for samples in sorted(set(batch_sizes)):
            self.gradient(samples + may_change)  # a size that was measured would say nothing of the others

    def to_json(self) -> str:
        return json.dumps(asdict(self), indent=1, sort_keys=True) + "\n"

    @staticmethod
    def from_json(text: str, where: str = "profile") -> ComputeProfile:
        """The profile in ``text``, which stands in ``where``. Raises: InputError."""
        try:
            # What is no number becomes what is none for msgspec either: the error names its key.
            content = json.loads(text, parse_constant=str)
        except (ValueError, RecursionError) as error:
            raise InputError(f"{where}: it is no JSON: {error}; calibrate again") from error
        _check_keys(content, ComputeProfile, where)
        if not isinstance(content["gradients"], dict):
            raise InputError(f"{where}: gradients: it is no mapping; calibrate again")
        gradients = {}
        for samples, times in content["gradients"].items():
            _check_keys(times, GradientTimes, f"{where}: gradients.{samples}")
            if not (samples.isascii() and samples.isdigit() and len(samples) < 16):
                raise InputError(f"{where}: gradients.{samples:.20}: is no batch size; write a whole number of samples")
            gradients[int(samples)] = convert(times, GradientTimes, f"{where}: gradients.{samples}", **_WRONG)
        return convert({**content, "gradients": gradients}, ComputeProfile, where, **_WRONG)


@dataclass(frozen=True, kw_only=True)
class HostModel:
    """One rank's host."""

    name: str
    profile: ComputeProfile
    samples: int  # per iteration, to begin with
    layer: str = "edge"
    factor: float = 1.0
    """Times slower than the profile at gradients and evaluations: what live hosts are paced by."""
    vector_factor: float = 1.0
    """Times slower at steps, copies, sums and scalings: ``factor``, where a quota slows everything."""
    speed: Speed | None = None
    """Instead of ``factor`` at gradients and evaluations; asked in order of time. For one run: it may remember heat."""
    pauses: tuple[tuple[float, float], ...] = ()
    """(from s, until s): its process is stopped. It computes, posts and receives nothing; its kernel still sends what
    it has, and keeps what arrives, however much, until the process goes on."""
    noise: float = 0.0
    """Relative standard deviation of a gradient's time, and of a step's, each log-normal with median 1."""
    slower: Mapping[Phase, Schedule] = field(default_factory=dict)
    """Phase -> times slower on top of all else, as it is when a piece of it begins: DATA, FORWARD, BACKWARD or STEP."""
    killed_at_s: float | None = None
    """When its process is killed, if it is."""
    pace: Callable[[], Pace] | None = None
    """Makes, for one run, what says how long computing takes here, instead of all of the above."""


def _between(low: GradientTimes, high: GradientTimes, part: float) -> GradientTimes:
    def line(a: float, b: float) -> float:
        return max(0.0, a + (b - a) * part)  # extrapolated to small batches, a line may go below 0

    return GradientTimes(
        data_s=line(low.data_s, high.data_s),
        forward_s=line(low.forward_s, high.forward_s),
        backward_s=tuple(line(a, b) for a, b in zip(low.backward_s, high.backward_s, strict=True)),
    )


_WRONG: dict[str, Any] = {"error": InputError, "remedy": REMEDY}


def _check_keys(content: Any, of: type[Any], where: str) -> None:
    """Raises: InputError, unless ``content`` is a mapping with the keys of the dataclass ``of``."""
    known = [field.name for field in fields(of)]
    if not isinstance(content, dict):
        raise InputError(f"{where}: it is no mapping; write {', '.join(known)}")
    for key in content:
        if key not in known:
            close = difflib.get_close_matches(str(key), known, n=1)
            raise InputError(f"{where}: {key}: unknown key; write {close[0] if close else ', '.join(known)}")
    missing = [name for name in known if name not in content and name != "machine"]
    if missing:
        raise InputError(f"{where}: {missing[0]} is missing; calibrate again")
