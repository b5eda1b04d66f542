"""Process groups: numbers that all ranks of a group give it, and that no other group has."""

from __future__ import annotations

from itertools import product
from types import SimpleNamespace

import numpy as np
import pytest

from e2c_dl.trace.collectives import MOST_GROUP, WORLD, keys
from e2c_dl.tracing.hooks.groups import number_of, number_of_pair, takes_part

c10d = pytest.importorskip("torch.distributed.distributed_c10d")


def named(name: str) -> SimpleNamespace:
    return SimpleNamespace(group_name=name)


def test_a_group_that_only_its_members_know_has_one_number_on_all_of_them_whatever_else_each_knows(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    first, second = (named(c10d._hash_ranks_to_str(ranks)) for ranks in ([0, 1], [2, 3]))
    before = number_of(first)
    monkeypatch.setitem(c10d._world.pg_names, object(), "0" * 40)  # one more group of this rank's
    assert number_of(first) == before != number_of(second)
    assert MOST_GROUP // 2 <= before <= MOST_GROUP


def test_torch_numbers_the_others() -> None:
    assert [number_of(each) for each in (None, named("3"), named("17"))] == [WORLD, 3, 17]


def test_a_rank_takes_no_part_in_a_group_of_others() -> None:
    assert not takes_part(c10d.GroupMember.NON_GROUP_MEMBER)
    assert takes_part(None)
    assert takes_part(named("3"))
    assert takes_part(number_of_pair(0, 1, None, 0)), "of a message, known by its number"


class Nameless:
    """As a ProcessGroup that a script has made by itself."""

    @property
    def group_name(self) -> str:
        raise RuntimeError("ProcessGroup name not set")


def test_of_a_group_without_a_name_nobody_knows_which_it_is_and_nothing_raises() -> None:
    assert not takes_part(Nameless())
    assert MOST_GROUP // 2 <= number_of(Nameless()) <= MOST_GROUP


def test_keys_sort_like_group_number_and_rank_up_to_the_largest() -> None:
    triples = sorted(product((WORLD, 0, 1, MOST_GROUP // 2, MOST_GROUP), (0, 1, (1 << 27) - 1), (0, 1, 32_767)))
    group, seq, rank = (np.array(each) for each in zip(*triples, strict=True))
    assert (np.diff(keys(group, seq, rank)) > 0).all()


def test_messages_are_numbered_alike_by_both_ends_and_apart_by_direction_and_tag() -> None:
    assert number_of_pair(0, 1, None, 0) == number_of_pair(0, 1, c10d.GroupMember.WORLD, 0)
    pairs = [number_of_pair(0, 1, None, 0), number_of_pair(1, 0, None, 0), number_of_pair(0, 1, None, 7)]
    assert len(set(pairs)) == 3
    assert [number_of(pair) for pair in pairs] == pairs, "a number is that of its group"
