from typing import Any

import numpy as np
import pytest

from e2c_dl.diagnosis.model import Element, ElementKind
from e2c_dl.diagnosis.piecewise import Piecewise
from e2c_dl.diagnosis.replay.replay import Replay, prepare
from e2c_dl.diagnosis.replay.whatif import UNCHANGED, Change, WhatIf, scaled
from e2c_dl.diagnosis.resimulation.changes import restoring
from e2c_dl.scenario.what_if import Changed, LinkChange
from e2c_dl.topology import Link
from e2c_dl.trace.messages import join
from e2c_dl.trace.model import SPAN, ClockAlignment, Phase, RankTrace, Trace

SECOND = 10**9
HOST = Element(kind=ElementKind.HOST, src="edge-1")
LINK = Element(kind=ElementKind.LINK, src="edge-1", dst="edge-2")
MESSAGE = {"src": 0, "dst": 1, "nbytes": 1000}


def rank(number: int, *rows: dict[str, int]) -> RankTrace:
    blank = {"iteration": -1, "bucket": -1, "src": -1, "dst": -1, "seq": -1, "peer_task": -2}
    spans: Any = np.zeros(len(rows), dtype=SPAN)
    for place, row in enumerate(rows):
        for field, value in {**blank, **row}.items():
            spans[field][place] = value
    return RankTrace(rank=number, host=f"edge-{number + 1}", layer="edge", spans=spans, clock=ClockAlignment())


def span(phase: Phase, start_s: int, end_s: int, **fields: int) -> dict[str, int]:
    start_ns, end_ns = start_s * SECOND, end_s * SECOND
    return {"phase": phase, "posted_ns": start_ns, "start_ns": start_ns, "end_ns": end_ns, **fields}


@pytest.fixture
def replay() -> Replay:
    """Two iterations: edge-1 draws its data (2 s), computes forward (3 s), sends to edge-2 (4 s, 1 of them delay)."""
    sender, receiver = [span(Phase.TRAINING, 100, 120)], [span(Phase.TRAINING, 100, 120)]
    for iteration, begin in enumerate((100, 110)):
        at, message = {"iteration": iteration}, {**MESSAGE, "seq": iteration, "iteration": iteration}
        sender += [
            span(Phase.ITERATION, begin, begin + 10, **at),
            span(Phase.DATA, begin, begin + 2, **at),
            span(Phase.FORWARD, begin + 2, begin + 5, **at),
            span(Phase.SEND, begin + 5, begin + 5, **message),
            span(Phase.AWAIT_MESSAGE, begin + 5, begin + 10, **{**message, "src": 1, "dst": 0}),
        ]
        receiver += [
            span(Phase.ITERATION, begin, begin + 10, **at),
            span(Phase.AWAIT_MESSAGE, begin, begin + 9, **message),
            span(Phase.RECEIVE, begin + 9, begin + 9, **message),
            span(Phase.SEND, begin + 9, begin + 9, **{**message, "src": 1, "dst": 0}),
        ]
        sender.append(span(Phase.RECEIVE, begin + 10, begin + 10, **{**message, "src": 1, "dst": 0}))
    trace = Trace(ranks=(rank(0, *sender), rank(1, *receiver)), facts={})
    return prepare(trace, join(trace), {(0, 1): SECOND})


def changed(**fields: Any) -> WhatIf:
    element = fields.pop("element", HOST)
    return WhatIf(changes=(Change(element=element, **fields),))


def since(second: float, value: float, before: float) -> Piecewise:
    return Piecewise(starts_s=np.array([0.0, second]), values=np.array([before, value]))


@pytest.mark.parametrize(
    ("whatif", "seconds"),
    [
        (UNCHANGED, 20),
        (scaled(HOST, 0.5), 20 - 3),  # FORWARD alone, unless other phases are asked for
        (changed(phases=frozenset({Phase.DATA}), scale=Piecewise.constant(0.5)), 20 - 2),
        (changed(phases=frozenset({Phase.DATA}), less_s=Piecewise.constant(1.5)), 20 - 3),
        (changed(less_s=Piecewise.constant(100.0)), 20 - 6),  # a span lasts at least 0
        (changed(scale=since(8.0, 0.5, 1.0)), 20 - 1.5),  # of the second iteration's, which begins at second 12
        (changed(scale=since(12.0, 3.0, 1.0)), 20 + 6),
        (changed(element=LINK, scale=Piecewise.constant(1 / 3)), 20 - 4),
        (changed(element=LINK, less_s=Piecewise.constant(0.5)), 20 - 1),
        (changed(element=LINK, less_s=Piecewise.constant(9.0)), 20 - 2),  # a delay is at least 0
        (changed(element=LINK, scale=since(15.0, 2.0, 1.0)), 20 + 3),
        (WhatIf.together([scaled(HOST, 0.5), scaled(LINK, 1 / 3), scaled(HOST, 0.5)]), 20 - 4.5 - 4),
    ],
)
def test_a_change_holds_for_its_element_its_phases_and_its_time(replay: Replay, whatif: WhatIf, seconds: float) -> None:
    assert replay.run_ns(whatif) == seconds * SECOND
    assert replay.runs_ns([UNCHANGED, whatif]) == [20 * SECOND, seconds * SECOND]


def test_an_element_that_is_not_in_the_run_is_refused(replay: Replay) -> None:
    with pytest.raises(KeyError):
        replay.run_ns(scaled(Element(kind=ElementKind.HOST, src="edge-9"), 0.5))


LATER = Change(element=LINK, scale=Piecewise(starts_s=np.array([0.0, 2.0]), values=np.array([0.1, 1.0])),
               less_s=Piecewise.constant(0.2))  # fmt: skip
SLOWER = Change(element=LINK, scale=Piecewise.constant(0.25))
BACK = Change(element=Element(kind=ElementKind.LINK, src="edge-2", dst="edge-1"), scale=Piecewise.constant(0.5))


@pytest.mark.parametrize(
    ("departs", "asked", "is_whole"),
    [
        (LATER, LinkChange(delay_s=0.005), True),
        (LATER, LinkChange(delay_s=0.05), False),
        (LATER, LinkChange(rate_bps=40e6), False),
        (SLOWER, LinkChange(rate_bps=40e6), True),
        (SLOWER, LinkChange(rate_bps=20e6), False),
        (SLOWER, LinkChange(rate_factor=4.0), False),
    ],
)
def test_a_link_that_is_asked_to_be_as_designed_is_that_altogether(departs, asked, is_whole) -> None:
    change = WhatIf(changes=(scaled(LINK, 0.9).changes[0], scaled(HOST, 0.5).changes[0]))
    pair = LINK.src, LINK.dst
    known, designed = {pair: WhatIf(changes=(departs, BACK))}, {pair: Link(rate_bps=40e6, delay_s=0.005)}
    found = restoring(change, Changed(links={pair: asked}), known, lambda *of: designed[of])
    assert {*found.changes} == ({change.changes[1], departs, BACK} if is_whole else {*change.changes})
