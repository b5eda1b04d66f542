"""Causes of a run's end, and hosts that could not be slowed, are found in what the hosts left."""

from __future__ import annotations

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest
from msgspec.structs import replace

from e2c_dl.archive import layout
from e2c_dl.archive.read import open_archive
from e2c_dl.archive.records import Cause, HostEnding, WorkerOutcome
from e2c_dl.archive.write import Archive
from e2c_dl.campaign import causes
from e2c_dl.campaign.causes import Event, Known
from e2c_dl.campaign.hosts.life import Silence
from e2c_dl.errors import E2cDlError, EmulationError, Interrupted, TestbedError, TrainingError


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
    found = causes.not_slowed(open_archive(tmp_path / "run").host_facts)
    assert [sentence.partition(" for so")[0] for sentence in found] == list(said)


def ended(cause: Cause, reason: str, rank: int, origin: int | None = None) -> WorkerOutcome:
    return WorkerOutcome.of(cause, reason=reason, rank=rank, origin=origin, iterations_done=1, seconds=1.0)


def explained(outcomes: Mapping[str, WorkerOutcome | None], **known: Any) -> tuple[tuple[str, ...], E2cDlError | None]:
    return causes.told((), causes.explained(Known(outcomes=outcomes, **known)))


def test_a_launch_that_did_not_come_to_its_workers_is_the_cause_and_not_that_they_left_nothing() -> None:
    events = causes.explained(Known(outcomes={"edge-1": None, "edge-2": None}, left_nothing=("edge-1", "edge-2")))
    launch = TrainingError("the workflow's launch failed: edge-1: no worker was started there: No space left on device")
    sentences, error = causes.told([("train", launch)], events)
    nothing = "worker edge-1, edge-2 left nothing: it did not begin, or ended as it did"
    assert (sentences, error) == ((f"train: {launch}", nothing), launch)


def test_causes_come_before_consequences_whatever_their_reasons_say() -> None:
    own = ended(Cause.FAILED, "batch_size 1000 of rank 1: it has 719", 1)
    told = ended(Cause.ANOTHER, "an earlier word of the alphabet", 0, 1)
    sentences, error = explained({"edge-1": told, "edge-2": own, "edge-3": ended(Cause.FINISHED, "", 2)})
    assert sentences == (
        "worker edge-2 failed: batch_size 1000 of rank 1: it has 719",
        "worker edge-1 failed: an earlier word of the alphabet",
    )
    assert isinstance(error, TrainingError) and str(error).startswith(sentences[0])


def test_a_worker_without_an_outcome_is_the_cause_of_a_lost_peer() -> None:
    lost = ended(Cause.LOST_PEER, "lost rank 1 (edge-2): its control connection closed", 0, 1)
    sentences, error = explained({"edge-1": lost, "edge-2": None})
    assert sentences[0] == "worker edge-2 exited without an outcome (killed, or its host is gone)"
    assert len(sentences) == 2 and error is not None and error.exit_code == 1


@pytest.mark.parametrize(("cause", "exit_code"), [(Cause.NOT_AS_REQUESTED, 3), (Cause.FAILED, 1)])
def test_the_exit_code_follows_from_the_cause_and_not_from_the_words(cause: Cause, exit_code: int) -> None:
    reason = "not as requested: edge-1 -> edge-2"
    sentences, error = explained({"edge-1": ended(cause, reason, 0), "edge-2": ended(cause, reason, 1)})
    assert sentences == ("worker edge-1, edge-2 failed: " + reason,)
    assert error is not None and error.exit_code == exit_code


def test_nothing_is_to_be_explained_if_all_finished() -> None:
    assert explained({"edge-1": ended(Cause.FINISHED, "", 0)}) == ((), None)


def test_of_two_failures_the_earlier_is_the_cause() -> None:
    late = replace(ended(Cause.FAILED, "a late one", 0), ended_s=20.0)
    early = replace(ended(Cause.FAILED, "not the first of the alphabet", 1), ended_s=10.0)
    sentences, _ = explained({"edge-1": late, "edge-2": early})
    assert sentences[0] == "worker edge-2 failed: not the first of the alphabet"


def test_the_end_of_the_network_is_the_cause_though_a_workers_last_sign_of_life_is_older() -> None:
    network = Event(error=EmulationError("the relay was killed"), sentence="the relay was killed", at_s=102.0)
    events = causes.explained(Known(outcomes={"edge-1": None}, seen_s={"edge-1": 101.0}))
    sentences, error = causes.told([("train", network.error)], (network, *events))
    assert sentences[0] == "the relay was killed" and error is network.error
    assert "edge-1 exited without an outcome" in sentences[1]


def test_a_host_that_ended_is_the_cause_of_what_its_worker_and_the_others_say() -> None:
    killed = HostEnding(at_s=5.0, signal=9, memory_available_bytes=3 * 2**30, pressure={"memory": 40.0})
    lost = replace(ended(Cause.LOST_PEER, "lost rank 1", 0, 1), ended_s=4.9)  # seen before the host's end was
    other = replace(ended(Cause.STOPPED, "it was asked to stop", 2), ended_s=4.0)
    outcomes = {"edge-1": lost, "edge-2": None, "edge-3": other}
    sentences, error = explained(outcomes, endings={"edge-2": killed}, asked_to_stop=True)
    assert sentences == (
        "host edge-2 ended: its first process was killed by SIGKILL "
        "(the machine then: 3.00 GiB of memory available, memory pressure 40 %)",
        "worker edge-1 failed: lost rank 1",
        "worker edge-3 stopped: it was asked to stop",
    )
    assert isinstance(error, TestbedError)


def test_a_silent_host_is_named_and_not_its_worker() -> None:
    sentences, error = explained({"edge-1": None}, silences=(Silence(host="edge-1", since_s=1.0),))
    assert len(sentences) == 1 and sentences[0].startswith("host edge-1: no sign of life")
    assert isinstance(error, TestbedError)


def test_a_host_that_answered_again_is_not_the_cause() -> None:
    sentences, _ = explained({"edge-1": None}, silences=(Silence(host="edge-1", since_s=1.0, until_s=9.0),))
    assert sentences == ("worker edge-1 exited without an outcome (killed, or its host is gone)",)


def test_a_worker_whose_log_ends_in_an_error_says_it() -> None:
    error = "ModuleNotFoundError: No module named 'e2c_dl.archive'"
    known = Known(outcomes={"edge-1": None, "edge-2": None}, errors={"edge-2": error})
    assert {event.sentence for event in causes.explained(known)} == {
        "worker edge-1 exited without an outcome (killed, or its host is gone)",
        f"worker edge-2 exited without an outcome: {error}",
    }


def events(*outcomes: WorkerOutcome | None, asked_to_stop: bool = False) -> tuple[Event, ...]:
    named = {f"edge-{rank + 1}": outcome for rank, outcome in enumerate(outcomes)}
    return causes.explained(Known(outcomes=named, asked_to_stop=asked_to_stop))


def test_whoever_stopped_the_run_comes_first() -> None:
    stopped = Interrupted("stopped by SIGINT")
    sentences, cause = causes.told([("train", stopped)], events(None))
    assert cause is stopped
    assert [each.partition(":")[0] for each in sentences] == [
        "train",
        "worker edge-1 exited without an outcome (killed, or its host is gone)",
    ]


def test_workers_that_were_asked_to_stop_do_not_hide_why() -> None:
    fork = TrainingError("the workflow's launch failed: a fork of Ansible is dead")
    healthy = ended(Cause.STOPPED, "it was asked to stop", 0)
    sentences, cause = causes.told([("train", fork)], events(healthy, asked_to_stop=True))
    assert cause is fork and sentences[0] == f"train: {fork}"


def test_a_worker_that_was_killed_while_it_started_is_not_why_another_failed_after_its_last_sign_of_life() -> None:
    """It was asked to stop since another failed, took too long to start, and was killed: no outcome, older records."""
    failed = replace(ended(Cause.FAILED, "host 9_9_9 does not train", 1), ended_s=20.0)
    outcomes = {"edge-1": None, "edge-2": failed}
    sentences, _ = explained(outcomes, seen_s={"edge-1": 10.0}, asked_to_stop=True)
    assert sentences[0].startswith("worker edge-2 failed: host 9_9_9")
    sentences, _ = explained(outcomes, seen_s={"edge-1": 10.0})  # nobody asked it to stop: it was gone before
    assert sentences[0].startswith("worker edge-1 exited without an outcome")


def test_of_workers_that_lost_a_killed_one_it_is_the_cause_though_all_were_asked_to_stop_then() -> None:
    lost = replace(ended(Cause.LOST_PEER, "lost rank 1 (edge-2)", 0, 1), ended_s=20.0)
    sentences, _ = explained({"edge-1": lost, "edge-2": None}, seen_s={"edge-2": 19.0}, asked_to_stop=True)
    assert sentences[0].startswith("worker edge-2 exited without an outcome")


def test_a_step_that_repeats_what_a_worker_said_is_left_out() -> None:
    launch = TrainingError("the workflow's launch failed: edge-1: failed: no such file")
    sentences, _ = causes.told([("train", launch)], events(ended(Cause.FAILED, "no such file", 0)))
    assert sentences == ("worker edge-1 failed: no such file",)
