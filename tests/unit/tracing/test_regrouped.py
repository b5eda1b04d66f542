"""A session whose process becomes another rank, or one at all, when torch makes its group of all ranks."""

from __future__ import annotations

import json
import threading
from pathlib import Path

import pytest

from e2c_dl.trace.collectives import WORLD
from e2c_dl.tracing.numbers import UNJOINED, Numbers
from e2c_dl.tracing.regrouped import regrouped
from e2c_dl.tracing.rendezvous import Alone
from e2c_dl.tracing.session import ALONE, Session
from e2c_dl.tracing.settings import Settings

LAUNCHED = ("E2CDL_RANK", "RANK", "HOROVOD_RANK", "LOCAL_RANK", "HOROVOD_LOCAL_RANK", "E2CDL_HOST")


@pytest.fixture
def both(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> list[Session]:
    """Two processes' sessions, which no launcher numbers."""
    for name in LAUNCHED:
        monkeypatch.delenv(name, raising=False)
    return [Session(Settings(archive=tmp_path)) for _ in range(2)]


def train(session: Session, count: int) -> None:
    for _ in range(count):
        session.active()
        session.end_iteration(session.clock())


def brought_together(sessions: list[Session]) -> None:
    store = Alone()
    work = [threading.Thread(target=regrouped, args=(one, rank, 2, store)) for rank, one in enumerate(sessions)]
    for each in work:
        each.start()
    for each in work:
        each.join()


def left_by(folder: Path) -> dict[int, int]:
    """Rank -> iterations of those that have left a trace."""
    found = {}
    for own in (folder / "hosts").iterdir():
        outcome = json.loads((own / "outcome.json").read_text())
        found[json.loads((own / "tracing.json").read_text())["rank"]] = outcome["iterations_done"]
    return found


def test_ranks_that_go_on_each_in_a_group_of_its_own_keep_their_traces(both: list[Session], tmp_path: Path) -> None:
    brought_together(both)
    for session in both:
        train(session, 3)
        store = Alone()
        regrouped(session, 0, 1, store)
        assert store.get("rank/0"), "who waits for this rank learns of it"
        train(session, 2)
    numbers = [session.next_seq() for session in both]
    assert min(numbers) >= UNJOINED and numbers[0] != numbers[1], "none waited for the other there"
    for rank, session in enumerate(both):
        said = f"its process group was made anew: rank {rank} of 2 became rank 0 of 1, and is called rank {rank} still"
        assert session.said.limitations == [said]
        session.end()
    assert left_by(tmp_path) == {0: 5, 1: 5}


def test_ranks_that_warm_up_alone_begin_when_they_meet_and_none_is_waited_for(
    both: list[Session], tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    for session in both:
        train(session, 2)
    began_ns = both[0].clock()
    brought_together(both)
    assert both[0].clock() - began_ns < 5e9
    for session in both:
        assert session.said.limitations == [ALONE]
        train(session, 4)
        session.end()
    assert left_by(tmp_path) == {0: 4, 1: 4}
    assert capsys.readouterr().err == ""


def test_of_two_processes_that_never_meet_the_second_says_that_it_is_not_traced(
    both: list[Session], tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    for session in both:
        train(session, 2)
    for session in both:
        session.end()
    assert left_by(tmp_path) == {0: 2}
    assert "rank 0 is not traced: " in capsys.readouterr().err


def test_numbers_are_never_used_again_whichever_groups_follow_each_other() -> None:
    one, other = Numbers(), Numbers()
    seen: list[list[int]] = [[], []]
    for _ in range(3):
        for rank, numbers in enumerate((one, other)):
            seen[rank].append(numbers.next_seq(WORLD))
            numbers.count_apart(rank)
            seen[rank] += [numbers.next_seq(WORLD), numbers.next_seq(3)]
            numbers.count_anew()
    assert seen[0][::3] == seen[1][::3], "joined"
    assert all(len(set(each)) == len(each) for each in (seen[0][::3] + seen[0][1::3], seen[0][2::3]))
    assert not set(seen[0][1::3]) & set(seen[1][1::3])
