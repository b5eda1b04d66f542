"""Footing of compressors: which messages are compressed, where state is kept, and what that costs in time.

::

    send(dst, message)     stream (dst, kind, bucket, step, length): its own Compressor, made at its first message
      vector  --encode-->  (head, array, ...)  ~~~~>  receive: head says that it is compressed, and of what
                              in calculate()            --decode-->  vector

A vector of the parameters' type and of at least LEAST_BYTES is compressed; other payloads travel as they are. The state
of a compressor, such as the residual of error feedback, belongs to one *stream*: the messages of one kind, bucket, step
and length from this rank to one other, in the order in which they are sent, whatever their iteration. Two streams never
share state: what was kept back of one vector is owed to its entries, and to its receiver.

What may be left out is the message's to say: if it ``adds`` at its receiver, a compressor may keep part of it for a
later message of the stream; if not (parameters, the second half of an all-reduce), it may only round.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import AsyncIterator, Callable, Generator, Sequence
from dataclasses import replace
from typing import Any

import numpy as np

from e2c_dl.errors import PeerLost, TrainingError
from e2c_dl.strategies.base import Array, Message, Payload, Pending, Vector, Worker
from e2c_dl.strategies.seam.wrapped import Wrapped

LEAST_BYTES = 1024  # of a vector: below, headers are what counts
MARK = 0x6B2D_6432_6365  # tells a head from arrays of a strategy's own
_DTYPES = ("float32", "float64")

Zeros = Callable[[int, str], Array]
"""Makes an array of this length and type."""


class Compressor(ABC):
    """One stream's compressor. A subclass says how, and what it remembers from message to message.

    Settings are keyword-only parameters of ``__init__`` with defaults; a value out of range raises InputError.
    """

    passes: float = 2.0
    """Times that encoding goes over its vector, in accumulations of it: see ``Worker.calculate``."""

    decoding_passes: float = 1.0
    """The same of decoding."""

    @abstractmethod
    def encode(self, values: Vector, adds: bool) -> tuple[Array, ...]:
        """What travels instead of ``values``, which it reads only; arrays of its own.

        ``adds``: what is left out may follow later, so it is kept here.
        """

    @abstractmethod
    def decode(self, arrays: Sequence[Array], length: int, dtype: str) -> Vector:
        """The vector of ``length`` that ``arrays`` stand for. Keeps nothing: the receiver's own streams go elsewhere.

        Raises: TrainingError, if they stand for none.
        """

    @abstractmethod
    def shapes(self, length: int, dtype: str, adds: bool, zeros: Zeros) -> tuple[Array, ...]:
        """Arrays of the sizes that ``encode`` would return, made by ``zeros``."""


class Compressing(Wrapped):
    """``worker``, whose vectors travel compressed. ``make`` makes the compressor of a new stream."""

    def __init__(self, worker: Worker, make: Callable[[], Compressor]) -> None:
        super().__init__(worker)
        self._make, self._decoder = make, make()
        self._streams: dict[tuple[int, str, int, int, int], Compressor] = {}
        self._leaving: list[Pending[PeerLost | None]] = []

    async def iterations(self) -> AsyncIterator[int]:
        async for iteration in self._worker.iterations():
            yield iteration
            self._leaving = [each for each in self._leaving if not each.done]
        for each in self._leaving:  # a strategy may return without awaiting its last sends, whose tasks would end
            await each

    def send(self, dst: int, message: Message, priority: int = 0) -> Pending[None]:
        payload = message.payload
        if payload is None or isinstance(payload, tuple) or not self._fit(payload):
            return self._worker.send(dst, message, priority)
        self._leaving.append(self.spawn(self._send(dst, message, payload, priority)))
        return _Sent(self._leaving[-1])

    async def round_as_sent(self, values: Vector) -> None:
        if not self._fit(values):
            return
        length, dtype = len(values), str(values.dtype)
        rounded = await self.calculate(
            lambda: self._decoder.decode(self._decoder.encode(values, adds=False), length, dtype),
            nbytes=round(values.nbytes * self._decoder.passes), shapes=lambda: self.zeros(length, dtype),
        )  # fmt: skip
        await self.copy(values, rounded)

    async def receive(self, kind: str, *, src: int, iteration: int = -1, bucket: int = -1, step: int = -1) -> Message:
        return await self._plain(
            await self._worker.receive(kind, src=src, iteration=iteration, bucket=bucket, step=step)
        )

    async def receive_any(
        self, kind: str, *, sources: Sequence[int] | None = None, timeout_s: float | None = None
    ) -> Message | None:
        came = await self._worker.receive_any(kind, sources=sources, timeout_s=timeout_s)
        return None if came is None else await self._plain(came)

    def arrived(self, kind: str) -> Sequence[Message]:
        came = self._worker.arrived(kind)  # at once, as it must not wait: what decoding costs is not counted
        return [replace(each, payload=self._decoded(each)) for each in came]

    def _fit(self, payload: Array) -> bool:
        return payload.dtype == self.parameters.dtype and payload.nbytes >= LEAST_BYTES

    async def _send(self, dst: int, message: Message, values: Vector, priority: int) -> PeerLost | None:
        """Why it could not be sent: to be raised where it is awaited, and nowhere else."""
        stream = (dst, message.kind, message.bucket, message.step, len(values))
        compressor = self._streams.setdefault(stream, self._make())
        arrays = await self.calculate(
            lambda: compressor.encode(values, message.adds),
            nbytes=round(values.nbytes * compressor.passes),
            shapes=lambda: compressor.shapes(len(values), str(values.dtype), message.adds, self.zeros),
        )  # fmt: skip
        head = np.array([MARK, len(values), _DTYPES.index(str(values.dtype))])
        try:
            await self._worker.send(dst, replace(message, payload=(head, *arrays)), priority)
        except PeerLost as why:
            return why
        return None

    async def _plain(self, came: Message) -> Message:
        if _head(came) is None:
            return came
        length, dtype = self._told(came)
        payload = await self.calculate(
            lambda: self._decoded(came),
            nbytes=round(length * np.dtype(dtype).itemsize * self._decoder.decoding_passes),
            shapes=lambda: self.zeros(length, dtype),
        )  # fmt: skip
        return replace(came, payload=payload)

    def _decoded(self, came: Message) -> Payload | None:
        if _head(came) is None:
            return came.payload
        length, dtype = self._told(came)
        if any(not isinstance(each, np.ndarray) for each in _objects(came)):  # in a run of shapes alone
            return self.zeros(length, dtype)
        return self._decoder.decode(came.arrays[1:], length, dtype)

    def _told(self, came: Message) -> tuple[int, str]:
        """Length and type of the vector that was compressed. Raises: TrainingError, if it is longer than any model."""
        _, length, code = (int(number) for number in came.arrays[0])
        if not 0 <= length <= len(self.parameters) or code not in range(len(_DTYPES)):
            raise TrainingError(
                f"message {came.kind!r} from rank {came.src} stands for {length} numbers, the model has "
                f"{len(self.parameters)}; run one version and one compression everywhere"
            )
        return length, _DTYPES[code]


class _Sent(Pending[None]):
    """A message that ``leaves``, to be awaited as one that is not compressed."""

    def __init__(self, leaves: Pending[PeerLost | None]) -> None:
        self._leaves = leaves

    @property
    def done(self) -> bool:
        return self._leaves.done

    def __await__(self) -> Generator[Any, None, None]:
        why = yield from self._leaves.__await__()
        if why is not None:
            raise why


def _head(came: Message) -> Array | None:
    """The first array of what was compressed; None: it was not."""
    first = came.arrays[0] if isinstance(came.payload, tuple) and came.payload else None
    marked = isinstance(first, np.ndarray) and first.dtype == np.int64 and len(first) == 3 and first[0] == MARK
    return first if marked else None


def _objects(came: Message) -> tuple[object, ...]:
    return came.arrays
