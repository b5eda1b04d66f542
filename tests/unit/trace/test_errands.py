"""One thread does what is due, and is there as long as there is anything to do."""

from __future__ import annotations

import threading

from e2c_dl.trace.recording.errands import Errands


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
