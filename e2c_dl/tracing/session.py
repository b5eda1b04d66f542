"""One rank's trace while its script trains: iterations, numbers of collectives, the recorder, the samplers.

::

    a first sign of training     Session(settings)      spans are kept in memory: whose they are is not known yet
    ranks have met, or a step    meet(rank, ...)        hosts/NAME/ is made, what was kept is recorded
    an optimizer steps           end_iteration(...)     one ITERATION, samplers are told
    the script ends              end()                  TRAINING, outcome.json, tracing.json

Hooks append to ``events``, mostly by themselves: between torch's kernels caches are cold, and a record costs some 2 us,
each call of a function of Python's that again, and so does each built-in that was not used just before.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any

from e2c_dl.errors import E2cDlError, TrainingError
from e2c_dl.trace.model import Phase
from e2c_dl.trace.recording.errands import Errands
from e2c_dl.trace.recording.recorder import Recorder, Row
from e2c_dl.tracing import folder
from e2c_dl.tracing.addresses import placed_at
from e2c_dl.tracing.lane import Event, Lane
from e2c_dl.tracing.looks import Looks
from e2c_dl.tracing.numbers import Numbers
from e2c_dl.tracing.rendezvous import WITHIN_S, Alone, Exchange, Ranks, meet, own_peer
from e2c_dl.tracing.said import Said, first_line, to_standard_error
from e2c_dl.tracing.samplers.sampled import SAMPLERS
from e2c_dl.tracing.samplers.sampler import FLUSH_EVERY_S, Sampler, offered
from e2c_dl.tracing.settings import Settings

MOST_EVENTS = 20_000  # in memory, until it is known whose they are: the newest
MANY_EVENTS = 4096  # ... and from so many on they are written before their time
_TAKEN_BACK = 1000  # at once, of those that are too many
ALONE = "this process trained alone before its ranks met: that part is left out"


class Session(Numbers):
    """What one rank records. Its methods are cheap, never raise, and are called from the script's own threads."""

    clock = staticmethod(time.monotonic_ns)

    def __init__(self, settings: Settings) -> None:
        super().__init__()
        self.settings = settings
        self.events: list[Event] = []
        self.said = Said()
        self.limited, self.hooked, self.wrote = self.said.limited, self.said.hooked, self.said.wrote
        self.lane = Lane(self.limited)  # told of events by the thread that writes
        self.entered, self.left, self.began_backward = self.lane.entered, self.lane.left, self.lane.began_backward
        self.awaited, self.awaited_all, self.closed = self.lane.awaited, self.lane.awaited_all, self.lane.closed
        self._over, self._begun = partial(self.lane.iterate, ended=True), partial(self.lane.iterate, ended=False)
        self.errands = Errands(in_step=True)
        self.iteration = -1  # the one under way
        self.ranks: Ranks | None = None
        self.iterations_done = 0
        self.preparing = False  # a library makes steps that train nothing, as Horovod does to find an optimizer's state
        self.explicit = False  # the script itself says where iterations begin and end
        self.worked_ns = 0  # ... and what would end one, or was a part of it, was over last
        self._recorder: Recorder | None = None
        self._folder: Path | None = None
        self._silent = False
        self.untold = ""  # why it is not traced, as far as it is known by now
        self.begun_ns: int | None = None  # of this iteration
        self._first_ns: int | None = None
        self._last_ns = 0  # of the iterations that have ended
        self._samplers: list[Sampler] = []
        self._at_ends: tuple[Callable[[int, int], object], ...] = ()
        self._looks = Looks()
        self._tell_failure: Callable[[str], None] = to_standard_error

    @property
    def opened(self) -> bool:
        return self._folder is not None

    @property
    def folder(self) -> Path:
        """The rank's own: hosts/NAME."""
        assert self._folder is not None, "before the ranks have met"
        return self._folder

    @property
    def cap_bytes(self) -> int:
        return self.settings.cap_bytes

    # ---- whose trace it is

    def meet(self, rank: int, world_size: int, exchange: Exchange | None = None) -> None:
        """Learn who the ranks are, and begin to write; a second time, under another rank, begin anew."""
        if self._silent or (self.opened and self.ranks is not None and self.ranks.own.rank == rank):
            return
        if self.opened:
            self.limited(f"this process trained as another rank before it became rank {rank}; that part is left out")
            self._drop()
        try:
            self._samplers = [make() for make in SAMPLERS]
            own = own_peer(rank, offered(self._samplers))
            within_s = WITHIN_S if exchange is not None else 0.0  # nobody can come
            ranks = meet(own, world_size, exchange or Alone(), within_s)
            self._open(ranks)
        except Exception as error:  # noqa: BLE001  # a script's store raises what it likes, and its script goes on
            self._each(lambda sampler: sampler.on_end())
            self._samplers = []
            why = f"rank {rank} is not traced: {first_line(error)}"
            if exchange is None and world_size == 1 and isinstance(error, TrainingError):
                self._silent, self.untold = True, why  # its true rank may be another, which is told when ranks meet
            else:
                self._stop(why)
            return
        if ranks.missing and exchange is not None:
            self.limited(f"ranks {', '.join(map(str, ranks.missing))} are not traced, or came too late")
        self._each(lambda sampler: sampler.on_ready(ranks, self))
        self._at_ends = tuple(act for sampler in self._samplers if (act := sampler.at_ends()) is not None)
        self._looks = Looks(self._samplers)

    def _open(self, ranks: Ranks) -> None:
        self.ranks = ranks
        self._folder = folder.make(self.settings.archive, ranks)
        placed = placed_at(ranks.own.addresses)
        layer = self.settings.layer if placed is None else placed.layer
        self._recorder = Recorder(
            self._folder / folder.SPANS, rank=ranks.own.rank, host=self._folder.name, layer=layer,
            cap_bytes=self.cap_bytes, flush_every_s=FLUSH_EVERY_S, rows=self._told,
            errands=self.errands, on_failure=lambda error: self._stop(f"the trace ends here: {error}"),
        )  # fmt: skip
        self.said.begin(self._folder, ranks, layer)
        folder.begin(self._folder, ranks)

    def begin_anew(self) -> None:
        """What was recorded so far is left out, and iterations count from 0: those who train together meet only now."""
        if self._recorder is not None:
            self._drop()
        elif not self.untold:  # its trace has ended
            return
        self.limited(ALONE)
        self._silent, self.untold, self.iterations_done, self._first_ns = False, "", 0, None
        self.seqs, self.passed, self.given_from = {}, (), None
        self.events.clear()
        self.lane.clear()
        self.outside()

    def _drop(self) -> None:
        assert self._recorder is not None
        self._each(lambda sampler: sampler.on_end())
        self._recorder.close()
        self.said.move_out()
        folder.remove(self.folder)
        self._recorder, self._folder, self._at_ends, self._looks = None, None, (), Looks()

    # ---- what it did

    def enter(self, phase: Phase, bucket: int = -1, seq: int = -1, peer_task: int = -2) -> int:
        """``phase`` begins now, in the thread that trains, and lasts up to :meth:`leave`; says when that is."""
        now_ns = self.clock()
        self.events.append((self.entered, now_ns, phase, bucket, seq, peer_task, True))
        if len(self.events) >= MANY_EVENTS:
            self.relieve()
        return now_ns

    def leave(self) -> int:
        """What was entered last ends now, whatever was raised within; says when that is."""
        now_ns = self.clock()
        self.events.append((self.closed, now_ns))
        return now_ns

    def note(self, *event: Any) -> None:
        """The thread that writes calls the first with the rest."""
        self.events.append(event)
        if len(self.events) >= MANY_EVENTS:
            self.relieve()

    def record(self, phase: Phase, start_ns: int, end_ns: int, **fields: int) -> None:
        """A span of the iteration under way, in any thread; the fields are those of Lane.record."""
        self.note(partial(self.lane.record, phase, start_ns, end_ns, **fields))

    def relieve(self) -> None:
        """Have events written before there are too many; where nobody writes, the oldest are let go."""
        if self._recorder is None:
            if self._silent:
                self.events.clear()
            elif len(self.events) > MOST_EVENTS:
                del self.events[:_TAKEN_BACK]
        elif len(self.events) < MOST_EVENTS // 2:
            self._recorder.wake()
        else:
            self._recorder.flush()

    def _told(self) -> list[Row]:
        """The spans that events up to now have ended. The thread that writes asks, each time before it writes."""
        taken = self.events[:]
        del self.events[: len(taken)]  # others append meanwhile
        self.lane.tell(taken)
        self.lane.seen(self.clock(), self._looks.seen())
        self.said.refresh()
        return self.lane.taken()

    def active(self) -> None:
        """Something that belongs to an iteration begins: the first one has begun."""
        if self.begun_ns is None:
            self.begin_iteration(self.iterations_done)

    def begin_iteration(self, iteration: int) -> None:
        self.iteration, self.begun_ns = iteration, self.clock()
        self._looks.here()
        self.events.append((self._begun, self.begun_ns, iteration, time.thread_time_ns(), self._looks.seen()))

    def end_iteration(self, now_ns: int) -> None:
        """The iteration under way has ended at ``now_ns``, and the next has begun."""
        begun_ns, self.begun_ns = self.begun_ns, now_ns
        if unmet := self._recorder is None and not self._silent:
            self.meet(*folder.of_environment())
            now_ns = self.begun_ns = self.clock()  # what that takes is of this one, by which no run is judged
        if begun_ns is None:
            return
        self.iterations_done = self.iteration = following = self.iteration + 1
        self.events.append((self._over, now_ns, following, time.thread_time_ns()))
        if unmet:  # nobody has looked before
            self.events.append((self.lane.seen, now_ns, self._looks.seen()))
        if self._first_ns is None:
            self._first_ns = begun_ns
        self._last_ns = now_ns
        try:
            for act in self._at_ends:
                act(following, now_ns)
        except Exception as error:  # noqa: BLE001  # a script is never stopped by what only watches it
            self._at_ends = ()
            self.limited(f"at iterations' ends nothing is sampled any more: {error}")

    def outside(self, *, worked: bool = False) -> None:
        """No iteration is under way; with ``worked``, that which was is over with its work, if it had any."""
        if worked and self.begun_ns is not None and self.begun_ns < self.worked_ns:
            self.end_iteration(self.worked_ns)
        self.iteration, self.begun_ns = -1, None
        self.events.append((self._begun, self.clock(), -1, time.thread_time_ns(), self._looks.seen()))

    def rest(self, resting: bool) -> None:
        """Nothing is recorded for a while, or it goes on."""
        self.outside()
        self.note(self.lane.clear)
        self._each(lambda sampler: sampler.on_rest(resting))

    # ---- its end

    def end(self, failure: str = "") -> None:
        """Write down how it ended; a second call does nothing."""
        if self.untold:
            self._stop(self.untold)
        recorder = self._recorder
        if recorder is None or self._silent:
            return
        self.outside(worked=self.explicit and not failure)
        self._each(lambda sampler: sampler.on_end())
        try:
            if self._first_ns is not None:
                self.record(Phase.TRAINING, self._first_ns, self._last_ns)
            recorder.close()  # waits for what the thread that writes says
            if recorder.failure is not None:  # which has been said
                return
            if self.iterations_done:
                self._leave(failure)
            else:
                self.said.move_out()
                folder.remove(self.folder)
        except (E2cDlError, OSError) as error:
            self._stop(f"how it ended is not in its trace: {error}")
        self._silent, self._recorder, self._at_ends, self._looks = True, None, (), Looks()
        self.said.alone()

    def abandon(self) -> None:
        """This process is a fork of the rank: it records nothing."""
        self._silent, self._recorder, self._samplers, self._at_ends, self._looks = True, None, [], (), Looks()
        self.untold = ""

    def _leave(self, failure: str) -> None:
        assert self.ranks is not None
        rank, seconds = self.ranks.own.rank, (self._last_ns - (self._first_ns or 0)) / 1e9
        folder.end(self.folder, rank=rank, iterations=self.iterations_done, seconds=seconds, failure=failure)
        self.said.write()

    def _each(self, act: Callable[[Sampler], None]) -> None:
        for sampler in self._samplers:
            try:
                act(sampler)
            except Exception as error:  # noqa: BLE001  # a script is never stopped by what only watches it
                self._samplers = [each for each in self._samplers if each is not sampler]
                self.limited(f"{type(sampler).__name__} ended early: {error}")

    def _stop(self, why: str) -> None:
        self._tell_failure(why)  # first: Python ends, and its threads, once nobody waits for this one
        self.limited(why)
        self._silent, self._recorder, self.untold = True, None, ""  # sockets go on: another file
        self.events.clear()
        self.said.alone()
