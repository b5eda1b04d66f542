"""One thread does what is due, and is there as long as there is anything to do."""

from __future__ import annotations

import threading

import pytest
from hypothesis import given
from hypothesis import strategies as st

from e2c_dl.trace.recording.errands import LEAST_APART, Errands, in_step_s


def test_one_thread_does_all_errands_and_ends_with_the_last() -> None:
    errands, done = Errands(), threading.Event()
    threads: set[int] = set()

    def few_times(left: list[int] = [3]) -> float | None:  # noqa: B006  # counts its own calls
        threads.add(threading.get_ident())
        left[0] -= 1
        return 0.0 if left[0] else None

    def once() -> None:
        threads.add(threading.get_ident())
        done.set()

    before = threading.active_count()
    errands.add(few_times, 0.0)
    errands.add(once, 0.0)
    assert done.wait(60)
    while threading.active_count() > before:  # it ends by itself
        pass
    assert len(threads) == 1
    done.clear()
    errands.add(once, 0.0)  # and begins anew
    assert done.wait(60)


def test_what_is_hurried_does_not_wait_and_what_is_removed_is_over() -> None:
    errands, begun, ended = Errands(), threading.Event(), threading.Event()

    def slow() -> float:
        begun.set()
        ended.wait(0.05)
        ended.set()
        return 3600.0

    errands.add(slow, 3600.0)
    assert not begun.is_set()
    errands.hurry(slow)
    assert begun.wait(60)
    errands.remove(slow)
    assert ended.is_set(), "not under way any more"
    errands.hurry(slow)
    errands.remove(slow)


def test_what_is_hurried_while_it_runs_is_run_again() -> None:
    errands, again = Errands(), threading.Event()
    runs: list[float] = []

    def twice() -> float:
        runs.append(0.0)
        if len(runs) == 1:
            errands.hurry(twice)
        else:
            again.set()
        return 3600.0

    errands.add(twice, 0.0)
    assert again.wait(60)
    errands.remove(twice)
    assert len(runs) == 2


def test_one_that_raises_is_told_of_and_others_go_on(monkeypatch: pytest.MonkeyPatch) -> None:
    told: list[str] = []
    monkeypatch.setattr(threading, "excepthook", lambda args: told.append(str(args.exc_value)))
    errands, done = Errands(), threading.Event()

    def broken() -> float:
        raise ValueError("a defect")

    def after() -> None:
        done.set()

    errands.add(broken, 0.0)
    errands.add(after, 0.0)
    assert done.wait(60)
    errands.remove(broken)
    assert told == ["a defect"]


@given(st.sampled_from([0.25, 0.9, 2.0, 60.0]), st.floats(0.0, 4e9))
def test_those_in_step_are_due_at_one_time_of_day_whenever_they_were_added(wait_s: float, of_day_s: float) -> None:
    after_s = in_step_s(wait_s, of_day_s)
    assert LEAST_APART * wait_s <= after_s <= (1 + LEAST_APART) * wait_s
    turns = (of_day_s + after_s) / wait_s
    assert turns == pytest.approx(round(turns), abs=1e-5)


def test_what_is_due_at_once_is_so_in_step_too() -> None:
    assert in_step_s(0.0, 3.7) == 0.0
    errands, done = Errands(in_step=True), threading.Event()
    errands.add(done.set, 0.0)
    assert done.wait(60)
