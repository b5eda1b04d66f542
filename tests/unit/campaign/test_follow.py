"""What is watched while a run trains: who is told of its end, and since when it may have been over."""

from __future__ import annotations

import threading
import time

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
