"""While a run is watched its sockets tell whether links lose anything, as they do when it is over."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest
from synthetic import simulate
from test_watch import LAST, RING, run, write  # noqa: F401 - the fixture
from told_sockets import counted, write_told

from e2c_dl.archive import layout
from e2c_dl.campaign.watch import watch as watching
from e2c_dl.campaign.watch.watch import Watch
from e2c_dl.testbeds.registry import RegisteredRun
from e2c_dl.trace.model import Phase, RankTrace, Trace
from e2c_dl.trace.propagation.samples import Connection

SEGMENTS, SENT_AGAIN = 100, 3  # in each iteration


def look(rank: RankTrace, path: Path) -> None:
    """What the one socket of ``rank``, to the other of its pair, told as each of its iterations ended."""
    here, there = ((f"10.0.0.{end + 1}", 1) for end in (rank.rank, rank.rank ^ 1))
    ends = Connection(cookie=1, local=here, remote=there)
    ended = rank.spans[rank.spans["phase"] == Phase.ITERATION]
    done = zip(ended["end_ns"].tolist(), ended["iteration"].tolist(), strict=True)
    told = ((at_ns, 1, number, counts_after(number + 1)) for at_ns, number in done)
    write_told(path, rank.rank, rank.host, [ends], told)


def counts_after(iterations: int) -> bytes:
    return counted(segments_out=SEGMENTS * iterations, retransmissions=SENT_AGAIN * iterations)


def test_what_sockets_tell_of_the_last_iterations_is_judged_with_them(
    run: RegisteredRun,  # noqa: F811
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    judged: list[Trace] = []
    observe = watching.observe
    monkeypatch.setattr(
        watching, "observe", lambda cut, *rest, **more: judged.append(cut) or observe(cut, *rest, **more)
    )
    trace = simulate(replace(RING, iterations=LAST + 4))  # the first of which are forgotten
    last = int(trace.ranks[0].spans["iteration"].max())
    for rank in trace.ranks:
        look(rank, run.directory / rank.host / layout.CONNECTIONS_RAW)
    write(run, trace, last)
    with Watch(run, last=LAST) as watch:
        now = watch.look()
    assert now is not None and now.diagnosis is not None, now
    link = judged[0].connections.between(0, 1)
    assert link is not None
    assert link.per_iteration["iteration"].tolist() == list(range(LAST))
    assert link.per_iteration["retransmissions"].tolist() == pytest.approx([SENT_AGAIN] * LAST)
    assert link.total["segments"][0] == pytest.approx(SEGMENTS * LAST)
