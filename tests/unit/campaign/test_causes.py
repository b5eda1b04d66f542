"""Causes of a run's end, and hosts that could not be slowed, are found in what the hosts left."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from e2c_dl.archive import layout
from e2c_dl.archive.read import open_archive
from e2c_dl.archive.records import Cause, WorkerOutcome
from e2c_dl.archive.write import Archive
from e2c_dl.campaign import collect
from e2c_dl.errors import TrainingError


@pytest.mark.parametrize(
    ("compute", "said"),
    [
        ({"speed": 0.2, "agreed_s": [0.0, 0.0]}, ("edge-1: the clock of CPU time is too coarse",)),
        ({"speed": 0.2, "agreed_s": [0.001, 0.0]}, ()),
        ({"speed": None, "agreed_s": [0.0]}, ()),
        ({"speed": 0.2}, ()),
    ],
)
def test_hosts_whose_gradients_measured_nothing_were_not_slowed(
    tmp_path: Path, compute: dict[str, object], said: tuple[str, ...]
) -> None:
    Archive.create(tmp_path / "run", "5a3b1e07", started="2025-01-31T10:00:00+00:00")
    for host, facts in {"edge-1": {"compute": compute}, "edge-2": {}}.items():
        folder = tmp_path / "run" / layout.HOSTS / host
        folder.mkdir(parents=True)
        (folder / layout.FACTS).write_text(json.dumps(facts))
    found = collect.not_slowed(open_archive(tmp_path / "run").host_facts)
    assert [sentence.partition(" for so")[0] for sentence in found] == list(said)


def ended(cause: Cause, reason: str, rank: int, origin: int | None = None) -> WorkerOutcome:
    return WorkerOutcome.of(cause, reason=reason, rank=rank, origin=origin, iterations_done=1, seconds=1.0)


def test_causes_come_before_consequences_whatever_their_reasons_say() -> None:
    own = ended(Cause.FAILED, "batch_size 1000 of rank 1: it has 719", 1)
    told = ended(Cause.ANOTHER, "an earlier word of the alphabet", 0, 1)
    sentences, error = collect.explained({"edge-1": told, "edge-2": own, "edge-3": ended(Cause.FINISHED, "", 2)})
    assert sentences == (
        "worker edge-2 failed: batch_size 1000 of rank 1: it has 719",
        "worker edge-1 failed: an earlier word of the alphabet",
    )
    assert isinstance(error, TrainingError) and str(error).startswith(sentences[0])


def test_a_worker_without_an_outcome_is_the_cause_of_a_lost_peer() -> None:
    lost = ended(Cause.LOST_PEER, "lost rank 1 (edge-2): its control connection closed", 0, 1)
    sentences, error = collect.explained({"edge-1": lost, "edge-2": None})
    assert sentences[0] == "worker edge-2 exited without an outcome (killed, or its host is gone)"
    assert len(sentences) == 2 and error is not None and error.exit_code == 1


@pytest.mark.parametrize(("cause", "exit_code"), [(Cause.NOT_AS_REQUESTED, 3), (Cause.FAILED, 1)])
def test_the_exit_code_follows_from_the_cause_and_not_from_the_words(cause: Cause, exit_code: int) -> None:
    reason = "not as requested: edge-1 -> edge-2"
    outcomes = {"edge-1": ended(cause, reason, 0), "edge-2": ended(cause, reason, 1)}
    sentences, error = collect.explained(outcomes)
    assert sentences == ("worker edge-1, edge-2 failed: " + reason,)
    assert error is not None and error.exit_code == exit_code


def test_nothing_is_to_be_explained_if_all_finished() -> None:
    assert collect.explained({"edge-1": ended(Cause.FINISHED, "", 0)}) == ((), None)
