"""One rank's end of verdicts: it tells what it has traced, and hears what the judge said; rank 0 runs the judge."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Coroutine
from typing import TYPE_CHECKING, Any

import msgspec

from e2c_dl import typed
from e2c_dl.archive.verdicts import Told
from e2c_dl.drivers.live.beside.watched import watched
from e2c_dl.drivers.live.control import Control
from e2c_dl.drivers.live.members import Assignment
from e2c_dl.drivers.live.verdicts.lines import News
from e2c_dl.strategies.base import Strategy, Verdict
from e2c_dl.trace.model import ClockAlignment

if TYPE_CHECKING:  # what judges takes a quarter of a worker's time to import: only where verdicts are heard
    from e2c_dl.drivers.live.verdicts.judging import JudgeProcess

PIECE_BYTES = 1 << 20  # per line, which base64 makes a third longer, and the control connection limits


class Hearing:
    """Made by :meth:`start` before ranks meet to train. Does nothing for a strategy that hears no verdicts."""

    def __init__(self, assignment: Assignment, control: Control, *, hears: bool) -> None:
        self._assignment, self._control, self._hears = assignment, control, hears
        self._judge: JudgeProcess | None = None
        self._read_bytes = 0
        self._clock: ClockAlignment | None = None

    @classmethod
    async def start(cls, assignment: Assignment, control: Control, strategy: Strategy) -> Hearing:
        """With the judge, if this is rank 0. Raises: TrainingError if it cannot begin."""
        hearing = cls(assignment, control, hears=strategy.hears_verdicts)
        if hearing._hears and assignment.rank == 0:
            from e2c_dl.drivers.live.verdicts.judging import JudgeProcess

            hearing._judge = await JudgeProcess.start(assignment, control)
            control.on_news = hearing._judge.hear
        return hearing

    async def watched(self, training: Coroutine[Any, Any, None], hear: Callable[[Verdict], None]) -> None:
        """``training``, whose rank meanwhile tells what it traces, and is told verdicts by ``hear``.

        Raises: TrainingError, if the judge is lost; what ``training`` does.
        """
        if not self._hears:
            await training
            return
        self._control.on_verdict = lambda said: hear(typed.convert(said, Told).verdict)
        if self._judge is not None:
            training = watched(training, self._judge.tell())
        await watched(training, self._tell())

    async def end(self) -> None:
        """The judge, if there is one, has ended."""
        if self._judge is not None:
            await self._judge.end()

    async def _tell(self) -> None:
        """Tell what is new, again and again. Raises: OSError, ArchiveError, if it cannot be read."""
        from e2c_dl.diagnosis.verdicts import EVERY_S

        facts = self._assignment.records.facts()
        while True:
            for spans in [*self._appended(), b""]:  # also nothing: the clock may be better known
                clock = self._assignment.records.clock()
                news = News(spans=spans, facts=facts, clock=None if clock == self._clock else clock)
                if news != News():
                    await self._control.say_news(msgspec.to_builtins(news))
                self._clock, facts = clock, None
            await asyncio.sleep(EVERY_S / 2)

    def _appended(self) -> list[bytes]:
        """What was appended to the trace since the last call, in pieces."""
        with self._assignment.records.spans.open("rb") as file:
            file.seek(self._read_bytes)
            found = [*iter(lambda: file.read(PIECE_BYTES), b"")]
        self._read_bytes += sum(map(len, found))
        return found
