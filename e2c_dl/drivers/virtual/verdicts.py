"""Verdicts while a run is simulated: as live, every so often, and after the time that it takes until ranks know them.

::

    virtual time   |----EVERY_S----|----EVERY_S----|
    look           x               x                 by what all ranks have traced until then
    heard              x               x             KNOWN_AFTER_S later, by every rank that asks
"""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from e2c_dl.archive.records import HostFacts
from e2c_dl.archive.verdicts import Told, append
from e2c_dl.diagnosis.verdicts import EVERY_S, Judge
from e2c_dl.drivers.virtual.inputs import emulation_facts
from e2c_dl.scenario.model import Scenario
from e2c_dl.strategies.base import Verdict
from e2c_dl.trace.model import RECORD_BYTES, ClockAlignment
from e2c_dl.trace.recording import span_log
from e2c_dl.worlds.virtual import Sink

KNOWN_AFTER_S = 0.7
"""Between what happened and a rank that knows it: half the time for which hosts collect spans, and what judging takes,
as seen live."""


class VirtualJudging:
    """Implements Judging, and Sink: what is written to ``sink`` is judged. ``facts``: of hosts, by rank;
    ``file``: where verdicts are kept."""

    def __init__(self, scenario: Scenario, sink: Sink, facts: Sequence[HostFacts], file: Path) -> None:
        self._file = file
        self._judge = Judge(scenario, emulation_facts(scenario))
        self._sink = sink
        size = len(scenario.topology.ranks)
        for rank in range(size):
            self._judge.aligned(rank, ClockAlignment())  # virtual time is every host's clock
            self._judge.is_host(rank, facts[rank])
        self._told: list[tuple[int, Verdict]] = []  # when ranks know it, in ns
        self._given = [0] * size  # how many of these, by rank
        self._written = [0] * size  # spans, by rank
        self._next_ns = 0

    def open(self, hosts: Sequence[tuple[str, str]]) -> None:
        self._sink.open(hosts)
        for rank, (host, layer) in enumerate(hosts):
            self._judge.add(rank, span_log.opening(rank, host, layer))

    def write(self, rank: int, records: bytes) -> None:
        self._sink.write(rank, records)
        self._judge.add(rank, span_log.frames(records, number=self._written[rank]))
        self._written[rank] += len(records) // RECORD_BYTES

    def due(self, now_ns: int) -> bool:
        """Whether it wants to look again."""
        return now_ns >= self._next_ns

    def look(self, now_ns: int) -> None:
        """Judge what was written."""
        self._next_ns = now_ns + round(EVERY_S * 1e9)
        verdict = self._judge.look(now_ns)
        if verdict is None:
            return
        told = Told(slow=verdict.slow, at_s=now_ns / 1e9, took_s=KNOWN_AFTER_S)
        append(self._file, told)
        self._told.append((now_ns + round(KNOWN_AFTER_S * 1e9), verdict))

    def heard(self, rank: int, now_ns: int) -> Sequence[Verdict]:
        """What ``rank`` has come to know since it asked last."""
        new = [verdict for at_ns, verdict in self._told[self._given[rank] :] if at_ns <= now_ns]
        self._given[rank] += len(new)
        return new
