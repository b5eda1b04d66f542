"""What is watched while a run trains: who is told of its end, and since when it may have been over."""

from __future__ import annotations

import threading
import time

import pytest

from e2c_dl.campaign.hosts import follow


def test_what_ended_is_told_once_with_when_it_was_last_seen_well() -> None:
    told: list[tuple[str, float]] = []
    heard, asked = threading.Event(), []

    def alive() -> str | None:
        asked.append(time.time())
        return None if len(asked) < 2 else "the relay was killed"

    def lost(why: str, well_s: float) -> None:
        told.append((why, well_s))
        heard.set()

    begun_s = time.time()
    with follow.watched(alive, lost, once_more=True):
        assert heard.wait(30)
    assert [why for why, _ in told] == ["the relay was killed"]
    assert begun_s <= told[0][1] <= asked[0]  # whoever noticed after that noticed because of it


def test_it_is_asked_a_last_time_when_it_is_left_if_that_is_wanted() -> None:
    told: list[str] = []
    for once_more in (False, True):
        with follow.watched(lambda: "gone", lambda why, _: told.append(why), once_more=once_more):
            pass
    assert told == ["gone"]


def test_the_first_that_fails_is_told_and_who_may_wait_for_it_is_stopped(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(follow, "ALONE_S", 0.01)
    said: list[str] = []
    stopped = threading.Semaphore(0)
    with follow.ended_together(said.append, stopped.release) as failed:
        failed("edge-2", "failed: no module named nets")
        assert stopped.acquire(timeout=30) and stopped.acquire(timeout=30)  # again: a worker may have begun since
        failed("edge-1", "stopped: it was asked to stop")
    assert said == ["edge-2: failed: no module named nets"]


def test_nobody_is_stopped_while_none_has_failed_or_all_have_ended(monkeypatch: pytest.MonkeyPatch) -> None:
    said: list[str] = []
    stopped: list[bool] = []
    monkeypatch.setattr(follow, "ALONE_S", 0.01)
    with follow.ended_together(said.append, lambda: stopped.append(True)):
        time.sleep(0.05)
    monkeypatch.setattr(follow, "ALONE_S", 300.0)
    with follow.ended_together(said.append, lambda: stopped.append(True)) as failed:
        failed("edge-2", "failed")
    assert said == ["edge-2: failed"] and not stopped
