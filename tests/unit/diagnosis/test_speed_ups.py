from collections.abc import Sequence
from dataclasses import dataclass, replace

import pytest
from synthetic import Ring, simulate

from e2c_dl.diagnosis.analyse import analyse
from e2c_dl.diagnosis.design import Design
from e2c_dl.diagnosis.model import Element, ElementKind, Report
from e2c_dl.diagnosis.observed import observe
from e2c_dl.diagnosis.replay.replay import Replay
from e2c_dl.diagnosis.replay.whatif import UNCHANGED, WhatIf
from e2c_dl.diagnosis.speed_ups import PATIENCE, speed_ups
from e2c_dl.topology import Bottleneck, Link

SECOND = 10**9
RUN_S = 100
EQUAL = Ring(
    compute_s=(0.2,) * 5, links=(Link(rate_bps=1e9, delay_s=0.001),) * 5, bucket_bytes=(20_000,), iterations=5, seed=3
)


@dataclass(frozen=True, kw_only=True)
class Known:
    """A run of which is known what every host alone saves, and what is told of it before: a Predictor."""

    saves_s: Sequence[float]
    most_s: Sequence[float]
    cheap: int = 4
    shares_lines: bool = False
    replayed_ns: int = RUN_S * SECOND

    @property
    def elements(self) -> tuple[Element, ...]:
        return tuple(Element(kind=ElementKind.HOST, src=f"edge-{place + 1}") for place in range(len(self.saves_s)))

    def runs_ns(self, whatifs: Sequence[WhatIf]) -> list[int]:
        return [self.replayed_ns - round(self._sum(whatif, self.saves_s) * SECOND) for whatif in whatifs]

    def most_saved_ns(self, whatif: WhatIf) -> float:
        return self._sum(whatif, self.most_s) * SECOND

    def _sum(self, whatif: WhatIf, values: Sequence[float]) -> float:
        return sum(values[self.elements.index(change.element)] for change in whatif.changes)


@pytest.fixture
def design() -> Design:
    return Design.of(simulate(EQUAL), EQUAL.reference())


def report(ring: Ring) -> Report:
    return analyse(simulate(ring), ring.reference())


def test_contenders_are_replayed_and_of_the_others_is_told_what_they_can_save_at_most(design: Design) -> None:
    known = Known(saves_s=[1, 2, 3, 4, 0.1, 0.2, 0.3], most_s=[5, 4, 6, 4, 0.1, 0.9, 0.3])
    elements, _ = speed_ups(known, (), design)
    assert [(one.element.src, one.saved_s, one.replayed) for one in elements] == [
        ("edge-4", 4.0, True),
        ("edge-3", 3.0, True),
        ("edge-2", 2.0, True),
        ("edge-1", 1.0, True),
        ("edge-6", 0.9, False),
        ("edge-7", 0.3, False),
        ("edge-5", 0.1, False),
    ]
    assert elements[4].speedup == pytest.approx(RUN_S / (RUN_S - 0.9))


def test_more_are_replayed_while_one_that_was_not_may_be_the_first(design: Design) -> None:
    known = Known(saves_s=[0.0] * 8 + [7.0, 0.0], most_s=[9.0] * 8 + [8.0, 6.0], cheap=5)
    elements, _ = speed_ups(known, (), design)
    assert (elements[0].element.src, elements[0].saved_s) == ("edge-9", 7.0)
    assert all(one.replayed for one in elements)


def test_what_can_never_be_told_apart_is_not_replayed_for_ever(design: Design) -> None:
    known = Known(saves_s=[1.0] * 40, most_s=[9.0] * 40)
    elements, _ = speed_ups(known, (), design)
    assert sum(one.replayed for one in elements) == PATIENCE * known.cheap
    assert elements[0].replayed


def test_hosts_that_are_equally_slow_show_their_saving_together() -> None:
    found = report(EQUAL)
    assert found.bottlenecks[0].saved_s < 0.02
    group = found.groups[0]
    assert str(group.element) == "hosts of layer edge"
    assert group.element.kind is ElementKind.GROUP
    assert group.members == tuple(one for one in Known(saves_s=[0.0] * 5, most_s=[]).elements)
    assert group.saved_s == pytest.approx(5 * 0.1, rel=0.05)


def test_a_group_is_told_once_and_only_if_it_saves_more_than_its_best_member() -> None:
    found = report(replace(EQUAL, compute_s=(0.2, 0.2, 0.05, 0.05, 0.05)))
    members = [frozenset(group.members) for group in found.groups]
    assert len(members) == len(set(members))
    saved_s = {one.element: one.saved_s for one in found.bottlenecks}
    for group in found.groups:
        assert len(group.members) >= 2
        assert group.saved_s > max(saved_s[member] for member in group.members)
    assert frozenset(Known(saves_s=[0.0] * 2, most_s=[]).elements) in members  # the slow two, as a pair


def test_a_run_that_nothing_shortens_has_no_groups(design: Design) -> None:
    known = Known(saves_s=[0.0] * 6, most_s=[0.0] * 6)
    assert speed_ups(known, (), design)[1] == ()
    assert known.runs_ns([UNCHANGED]) == [RUN_S * SECOND]


def test_a_link_on_a_line_is_twice_as_fast_by_itself_where_the_line_is_shared_again() -> None:
    """Where nobody shares it, what the others then leave a link is in its what-if."""
    pair = ("edge-1", "edge-2")
    ring = replace(EQUAL, links=(Link(rate_bps=1e9, delay_s=0.001),) * 5)
    reference = ring.reference()
    line = Bottleneck(name="up", rate_bps=1.1e9, links=(pair, ("edge-2", "edge-3")))
    reference = replace(reference, topology=replace(reference.topology, bottlenecks=(line,)))
    observed = observe(simulate(ring), reference)
    of_link = {}
    for shares in (False, True):
        asked = Asked(observed.replay, shares)
        speed_ups(asked, observed.carried, observed.design)
        (change,) = next(each.changes for each in asked.whatifs if each.changes[0].element.dst == "edge-2")
        of_link[shares] = change.scale.values[0]
    assert of_link[True] == 0.5 < of_link[False]


class Asked:
    """A Predictor as ``replay`` is, that notes what it is asked for. ``shares_lines``: as it says."""

    def __init__(self, replay: Replay, shares_lines: bool) -> None:
        self._replay, self.shares_lines, self.whatifs = replay, shares_lines, list[WhatIf]()

    def runs_ns(self, whatifs: Sequence[WhatIf]) -> list[int]:
        self.whatifs += whatifs
        return self._replay.runs_ns(whatifs)

    def __getattr__(self, name: str) -> object:
        return getattr(self._replay, name)
