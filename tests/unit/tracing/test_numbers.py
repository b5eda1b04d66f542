"""Collectives are numbered in the order in which they are made, those within a backward too."""

from __future__ import annotations

from e2c_dl.tracing.numbers import BETWEEN_JOINS, Numbers


def test_what_a_backward_reduced_is_counted_before_the_next_number() -> None:
    numbers = Numbers()
    assert numbers.next_seq() == 0
    numbers.passed = [({0: 5, 1: 6}, [100, 200], -2, 1), ({}, [300], -2, 1), ({0: 5},), ({0: 5}, [7], 4, 0)]
    assert (numbers.next_seq(), numbers.next_seq(4), numbers.next_seq(9)) == (3, 1, 0)
    assert numbers.next_seq(count=2) == 4, "a backward is counted once"
    assert numbers.next_seq() == 6


def test_ranks_that_have_made_unlike_numbers_of_collectives_count_anew_alike() -> None:
    one, other = Numbers(), Numbers()
    one.next_seq(count=3)
    other.next_seq(count=2)
    other.next_seq(group=4)
    for each in (one, other):
        each.count_anew()
    assert one.next_seq() == other.next_seq() == BETWEEN_JOINS
    assert Numbers().next_seq(group=4) == 0 != other.next_seq(group=4)
