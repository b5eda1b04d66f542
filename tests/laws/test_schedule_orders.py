"""Every order of events of a few ranks of Hop, Prague and AD-PSGD, and bugs that only some orders show."""

from __future__ import annotations

from dataclasses import replace

import pytest

from benchmarks.schedules.cases import BUGS, DRAWN, WHOLE, Case, found, found_backwards, grouped, hopping, paired
from benchmarks.schedules.explore import Explorer, Violated
from benchmarks.schedules.rank import Sent, World

SMALL = (
    WHOLE[2],
    hopping(3, 2, graph="directed-ring", max_ig=1, backup_workers=0),
    hopping(2, 3, graph="ring", max_ig=0, backup_workers=0, staleness=1),
    grouped(3, 1, groups="random", group_size=2, threshold=9),
    paired(3, 2),
)


@pytest.mark.parametrize("case", SMALL, ids=str)
def test_in_every_order_all_end_and_nobody_is_too_far_ahead(case: Case) -> None:
    explorer = Explorer(case.world, case.bounds)
    covered = explorer.all()
    assert covered.ends >= 1
    assert covered.states > 100
    assert covered.ahead == case.bounds  # reached, on each link
    assert explorer.ranks.unlike() > 0  # merged histories behave alike


def test_merging_histories_leaves_nothing_out() -> None:
    case = hopping(2, 2, graph="directed-ring", max_ig=1, backup_workers=0)
    merged, apart = (Explorer(case.world, case.bounds, merging=merging).all() for merging in (True, False))
    assert merged.ahead == apart.ahead
    assert merged.states < apart.states


@pytest.mark.parametrize(
    ("case", "kind"),
    [(WHOLE[6], "group"), (grouped(3, 1, groups="random", group_size=2, threshold=9), "group"), (paired(3, 2), "ask")],
    ids=str,
)
def test_reducing_orders_leaves_no_end_and_no_deadlock_out(case: Case, kind: str) -> None:
    reduced, all_orders = (Explorer(case.world, case.bounds, reducing=reducing).all() for reducing in (True, False))
    assert reduced.ends == all_orders.ends
    assert reduced.of_ranks == all_orders.of_ranks
    assert reduced.states < all_orders.states

    def lost(dst: int, sent: Sent) -> bool:
        """What rank 1 hears from rank 0."""
        return (dst, sent.src, sent.kind) == (1, 0, kind)

    for reducing in (True, False):
        with pytest.raises(Violated, match="deadlock"):
            Explorer(replace(case.world, lost=lost), {}, reducing=reducing).all()


@pytest.mark.parametrize("name", sorted(BUGS))
def test_a_planted_bug_is_found(name: str) -> None:
    case, world = BUGS[name]
    with pytest.raises(Violated):
        Explorer(world, case.bounds).all()


def test_a_single_lost_token_keeps_a_rank_from_getting_ahead() -> None:
    case = hopping(3, 2, graph="directed-ring", max_ig=1, backup_workers=0)
    world = World(
        strategy=case.world.strategy, size=3, iterations=2,
        lost=lambda dst, sent: (dst, sent.kind, sent.iteration) == (0, "token", 0),
    )  # fmt: skip
    assert Explorer(world, case.bounds).all().ahead[0, 1] == 0 < case.bounds[0, 1]


def test_groups_in_unlike_orders_are_found_to_deadlock() -> None:
    backwards = found_backwards(2000)
    assert backwards is not None
    assert "deadlock" in backwards[1]


@pytest.mark.parametrize("case", DRAWN, ids=str)
def test_random_orders_of_more_ranks_end(case: Case) -> None:
    assert found(case, 5) is None
