"""Runs of the campaign, several processes side by side, judged in the order of their numbers.

What was judged is kept in a file: a campaign that is ended, or killed, goes on where it was, as long as nothing changes
in what it measures.
"""

from __future__ import annotations

import multiprocessing
import random
import time
from collections.abc import Iterator
from concurrent.futures import Future, ProcessPoolExecutor
from dataclasses import replace
from itertools import count, islice
from pathlib import Path

from benchmarks import rooms
from benchmarks.diagnosis.drawn import NONE, Drawn, drawn, planned
from benchmarks.diagnosis.judging import CLEAN, MATERIAL, Outcome, failed, judged, void
from benchmarks.diagnosis.rules import named_by_rules
from benchmarks.diagnosis.truth import Truth, truth
from benchmarks.kept import Kept, named
from e2c_dl.codec import convert
from e2c_dl.diagnosis.analyse import analyse
from e2c_dl.diagnosis.model import Report
from e2c_dl.errors import E2cDlError
from e2c_dl.trace.recording import span_log

OWN = "benchmarks/diagnosis"  # decides what is drawn and how it is judged
AHEAD = 8  # runs per lane that are begun before the first of them is asked for


def judged_run(seed: int, number: int) -> Outcome:
    """Run ``number`` of the campaign of ``seed``, simulated and judged."""
    begun_s = time.perf_counter()
    return replace(of(drawn(seed, number)), seconds=time.perf_counter() - begun_s)


def of(one: Drawn, known: Truth | None = None) -> Outcome:
    """``one``, judged by the truth, which is simulated if it is not ``known``."""
    begun_s = time.perf_counter()
    told = known or truth(one)
    try:
        report = _report(one, told, speeding_up=False)  # bottlenecks are not judged, and take most of its time
    except E2cDlError as error:
        return failed(one, str(error), time.perf_counter() - begun_s)
    rules = named_by_rules(told.trace)
    return judged(one, told, report, rules, time.perf_counter() - begun_s)


def _report(one: Drawn, told: Truth, *, speeding_up: bool) -> Report:
    return analyse(told.trace, one.system.reference(told.trace), one.system.retraining(), speeding_up=speeding_up)


class Judged:
    """The outcomes that ``file`` has of the code as it is."""

    def __init__(self, file: Path, *, live: bool = False) -> None:
        self._kept = Kept(file)
        self._code = named(sorted(rooms.hashes((*rooms.rooms()["diagnosis"], OWN)).items()), live)
        self._found: dict[tuple[int, int], Outcome] = {}
        for line in self._kept.lines():
            if line.pop("code") == self._code:
                self._note(convert(line, Outcome, str(file), remedy="remove the file"))

    def of(self, seed: int, number: int) -> Outcome | None:
        """The outcome of this run, if it was judged."""
        return self._found.get((seed, number))

    def keep(self, outcome: Outcome) -> None:
        """Have it, in the file, too."""
        if self.of(outcome.seed, outcome.number) is None:
            self._note(outcome)
            self._kept.add({"code": self._code, **outcome.plain()})

    def _note(self, outcome: Outcome) -> None:
        self._found[outcome.seed, outcome.number] = outcome


def campaign(seed: int, runs: int, lanes: int, only: tuple[str, ...], known: Judged) -> Iterator[Outcome]:
    """Outcomes by number, until ``runs`` of them are material and as many are clean; those ``known`` are not run again.

    ``only``: runs into which one of these is injected alone (``none``: nothing is), until there are ``runs`` in all.
    """
    left = {MATERIAL: runs, CLEAN: runs}
    numbers = (number for number in count() if not only or _meets(seed, number, only))
    context = multiprocessing.get_context("spawn")  # forks of a process with threads may hang
    with ProcessPoolExecutor(lanes, mp_context=context) as pool:

        def begun(number: int) -> tuple[int, Future[Outcome]]:
            found = known.of(seed, number)
            if found is None:
                return number, pool.submit(judged_run, seed, number)
            there: Future[Outcome] = Future()
            there.set_result(found)
            return number, there

        pending = [begun(number) for number in islice(numbers, lanes * AHEAD)]
        done = 0
        try:
            while (done < runs) if only else any(each > 0 for each in left.values()):
                number, future = pending.pop(0)
                broken = future.exception()  # a world that fails tells no truth
                outcome = future.result() if broken is None else void(drawn(seed, number), repr(broken))
                pending.append(begun(next(numbers)))
                known.keep(outcome)
                yield outcome
                done += 1
                if outcome.kind in left:
                    left[outcome.kind] -= 1
        finally:
            pool.shutdown(cancel_futures=True)  # also of one that is ended early


def _meets(seed: int, number: int, only: tuple[str, ...]) -> bool:
    plan = planned(random.Random(f"{seed}/{number}"))
    return bool({each.what.value for each in plan or ()} & set(only)) or (not plan and NONE in only)


def keep(one: Drawn, told: Truth, folder: Path) -> None:
    """Leave the trace (one file per host, as workers write them) and the report of ``one`` in ``folder``."""
    folder.mkdir(parents=True, exist_ok=True)
    for rank in told.trace.ranks:
        content = span_log.opening(rank.rank, rank.host, rank.layer) + span_log.frames(rank.spans.tobytes(), number=0)
        (folder / f"{rank.host}.spans").write_bytes(content)
    (folder / "report.json").write_bytes(_report(one, told, speeding_up=True).to_json())
