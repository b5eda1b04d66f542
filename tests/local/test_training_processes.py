"""Workers as processes over loopback: the result is right, and every end says what happened."""

from __future__ import annotations

import contextlib
import json
import signal
import socket
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path

import loopback
import numpy as np
import pytest
import torch
from thorough import few

from e2c_dl.scenario.load import load
from e2c_dl.trace.clocks.clock import read_alignment
from e2c_dl.trace.model import Phase
from e2c_dl.trace.recording.recorder import read_spans
from e2c_dl.training import datasets, models
from e2c_dl.training.partitions import Stream, parts

pytestmark = pytest.mark.local

Prepare = Callable[..., loopback.Run]


@pytest.fixture
def prepare(tmp_path: Path) -> Iterator[Prepare]:
    """Runs whose processes end with the test."""
    runs: list[loopback.Run] = []

    def prepared(*arguments: object, **options: object) -> loopback.Run:
        runs.append(loopback.prepare(tmp_path / str(len(runs)), *arguments, **options))  # type: ignore[arg-type]
        return runs[-1]

    yield prepared
    for run in runs:
        for process in run.processes:
            process.kill()
            process.wait()


def single_process(run: loopback.Run) -> np.ndarray:
    """The parameters that torch's SGD reaches on the concatenated batches."""
    training = run.scenario.training
    data = datasets.load(training.dataset, dtype=training.dtype)
    images, labels = torch.from_numpy(data.train_images), torch.from_numpy(data.train_labels)
    dtype = models.dtype_of(training.dtype)
    model = models.build(training.model, seed=training.seed, dtype=dtype, shape=data.shape, classes=data.classes)
    optimizer = torch.optim.SGD(model.parameters(), lr=training.learning_rate, momentum=training.momentum)
    own = parts(data.train_labels, seed=training.seed, size=len(training.batch_sizes))
    streams = [Stream(part, seed=training.seed, rank=rank) for rank, part in enumerate(own)]
    for iteration in range(training.iterations):
        batch = np.concatenate([
            stream.at(iteration * samples, samples)
            for stream, samples in zip(streams, training.batch_sizes, strict=True)
        ])  # fmt: skip
        optimizer.zero_grad()
        torch.nn.functional.cross_entropy(model(images[batch]), labels[batch]).backward()
        optimizer.step()
    return torch.cat([parameter.detach().flatten() for parameter in model.parameters()]).numpy()


def test_processes_train_as_one_and_leave_what_an_archive_needs(prepare: Prepare) -> None:
    run = prepare([5, 16, 8], iterations=100, dtype="float64", evaluate_every=40, members={"speed": 0.5})
    run.start()
    assert run.wait() == [0, 0, 0]
    trained = np.load(run.directory(0) / "model.npz")["parameters"]
    expected = single_process(run)
    assert np.linalg.norm(trained - expected) <= 1e-9 * np.linalg.norm(expected)
    outcome = run.read(0, "outcome.json")
    assert (outcome["status"], outcome["cause"], outcome["iterations_done"]) == ("finished", "finished", 100)
    assert outcome["accuracy"] > 0.8
    progress = run.progress(0)
    assert [line["iteration"] for line in progress] == [*range(1, 101), 100]
    assert [line["iteration"] for line in progress if line["accuracy"] is not None] == [40, 80, 100]
    for rank in range(3):
        spans, complete = read_spans(run.directory(rank) / "spans.bin")[1:]
        assert complete
        assert np.sum(spans["phase"] == Phase.ITERATION) == 100
        clock = read_alignment(run.directory(rank) / "clock.json")
        assert abs(clock.offset_ns) <= clock.uncertainty_ns  # one machine: its clocks are the same
        assert len(run.read(rank, "links.json")["rows"]) == 1
        facts = run.read(rank, "facts.json")
        assert facts["torch"]["threads"] == 1
        paced_ns = 1e9 * sum(facts["compute"]["agreed_s"]) / 0.5
        assert paced_gradients(spans, paced_ns)
        assert set(facts["buffers"]) == {"limits", "at_start"}
        assert facts["timekeeping_at_end"].keys() == facts["timekeeping"].keys() > {"unknown"}
        assert not (run.directory(rank) / "run.key").exists()
        rows = (run.directory(rank) / "metrics.csv").read_text().splitlines()
        assert len(rows) > 2
        assert all(row.count(",") == rows[0].count(",") for row in rows)


def test_processes_share_a_budget_and_the_servers_model_is_saved(prepare: Prepare) -> None:
    run = prepare(
        [8, 8, 8], strategy="asyncparameterserver", strategy_settings={"server": 1}, iterations=None, updates=60,
        evaluate_every=10,
    )  # fmt: skip
    run.start()
    assert run.wait() == [0, 0, 0]
    assert sum(run.read(rank, "outcome.json")["iterations_done"] for rank in range(3)) == 60
    last = run.progress(0)[-1]
    assert (last["model"], last["remaining_s"]) == ("rank 1's parameters", 0)
    assert np.isfinite(np.load(run.directory(0) / "model.npz")["parameters"]).all()
    assert not (run.directory(1) / "model.npz").exists()


def paced_gradients(spans: np.ndarray, paced_ns: float) -> bool:
    """Whether every gradient lasts as long as pacing says, to a microsecond."""
    computed = spans[spans["task"] == -1]
    return all(
        np.ptp(np.concatenate([own["start_ns"], own["end_ns"]])) >= paced_ns - 1000
        for own in (computed[computed["iteration"] == iteration] for iteration in range(100))
    )


@pytest.mark.parametrize("victim", few([0, 1], 1))
def test_a_killed_rank_ends_all_and_is_named(prepare: Prepare, victim: int) -> None:
    run = prepare([4, 4, 4], iterations=1_000_000, evaluate_every=0, mathematics="shapes")
    run.start()
    run.until_traced(victim)
    run.processes[victim].send_signal(signal.SIGKILL)
    statuses = run.wait()
    assert statuses[victim] == -signal.SIGKILL
    assert not (run.directory(victim) / "outcome.json").exists()
    for rank in {0, 1, 2} - {victim}:
        assert statuses[rank] == 1
        outcome = run.read(rank, "outcome.json")
        assert (outcome["status"], outcome["cause"], outcome["origin"]) == ("failed", "lost peer", victim)
        assert f"lost rank {victim} (edge-{victim + 1})" in outcome["reason"]
    _, spans, complete = read_spans(run.directory(victim) / "spans.bin")
    assert len(spans)
    assert not complete


def test_stopping_one_worker_stops_all_and_keeps_the_trace(prepare: Prepare) -> None:
    run = prepare([4, 4], iterations=1_000_000, evaluate_every=0, members={"speed": 0.01}, mathematics="shapes")
    run.start()
    run.until_training(iterations=1)
    stop = [sys.executable, "-m", "e2c_dl.drivers.live", "stop", str(run.directory(1))]
    assert subprocess.run(stop, check=False, env=loopback.environ()).returncode == 0
    assert run.wait() == [143, 143]
    for rank in range(2):
        outcome = run.read(rank, "outcome.json")
        assert outcome["status"] == "stopped"
        assert "asked to stop" in outcome["reason"]
        assert len(read_spans(run.directory(rank) / "spans.bin")[1])
    assert subprocess.run(stop, check=False, env=loopback.environ()).returncode == 0  # it has ended already


def test_strict_refuses_a_network_that_is_not_as_asked(prepare: Prepare) -> None:
    asked = [{"src": "edge.*", "dst": "edge.*", "delay": "30ms", "rate": "100mbit"}]
    run = prepare(
        [4, 4], iterations=2, evaluate_every=0, members={"strict": True}, networks=asked, mathematics="shapes"
    )  # fmt: skip
    run.start()
    assert run.wait() == [3, 3]
    for rank in range(2):
        outcome = run.read(rank, "outcome.json")
        assert outcome["status"] == "failed"
        assert outcome["cause"] == "not emulated as requested"
        assert "not as requested: edge-" in outcome["reason"]
        assert outcome["iterations_done"] == 0


def test_a_rank_that_cannot_even_start_is_told_in_its_outcome(prepare: Prepare) -> None:
    run = prepare([4, 4], iterations=2)
    (run.directory(0) / "members.json").write_text("[]")
    command = [sys.executable, "-m", "e2c_dl.drivers.live", "train", str(run.directory(0)), "1_1_1"]
    ended = subprocess.run(command, check=False, capture_output=True, text=True, env=loopback.environ())
    assert ended.returncode == 2
    outcome = run.read(0, "outcome.json")
    assert outcome["status"] == "failed"
    assert "edge-1 (1_1_1) is not in it" in outcome["reason"]
    assert ended.stderr.count("\n") == 1


@pytest.mark.parametrize(
    ("key", "mode", "why"),
    [(None, 0, "No such file"), ("short", 0o600, "holds 5 bytes"), ("k" * 64, 0o640, "its mode is 0640")],
    ids=["none", "short", "readable by others"],
)
def test_without_a_key_of_the_run_nobody_starts(prepare: Prepare, key: str | None, mode: int, why: str) -> None:
    run = prepare([4, 4], iterations=2)
    path = run.directory(0) / "run.key"
    path.unlink()
    if key is not None:
        loopback.write_key(run.directory(0), key)
        path.chmod(mode)
    command = [sys.executable, "-m", "e2c_dl.drivers.live", "train", str(run.directory(0)), "1_1_1"]
    ended = subprocess.run(command, check=False, capture_output=True, text=True, env=loopback.environ())
    assert ended.returncode == 2
    assert why in run.read(0, "outcome.json")["reason"]
    assert not path.exists()
    for file in run.directory(0).iterdir():
        assert file.is_dir() or "k" * 64 not in file.read_text(errors="replace")


def test_a_stranger_is_turned_away_and_training_goes_on(prepare: Prepare) -> None:
    run = prepare([4, 4], iterations=50, evaluate_every=0, members={"speed": 0.05}, mathematics="shapes")
    port = json.loads((run.directory(0) / "members.json").read_text())[0]["control_port"]
    run.start()
    run.until_training(iterations=1)
    with socket.create_connection(("127.0.0.1", port)) as stranger:
        stranger.sendall(b"GET / HTTP/1.1\r\nHost: example.org\r\nUser-Agent: a port scanner\r\n\r\n")
        stranger.settimeout(60)
        with contextlib.suppress(ConnectionResetError):
            assert stranger.recv(1) == b""
    assert run.wait() == [0, 0]
    assert "a connection was turned away: it begins with b'GET '" in (run.directory(0) / "worker.log").read_text()


def test_too_small_a_part_of_the_data_fails_all_ranks_with_the_reason(prepare: Prepare) -> None:
    run = prepare([4, 1000], iterations=2)
    run.start()
    assert run.wait() == [2, 2]
    for rank in range(2):
        assert "batch_size 1000 of rank 1: it has 719 of 1438" in run.read(rank, "outcome.json")["reason"]
    assert load(run.directory(0) / "scenario").training.batch_sizes == (4, 1000)


def test_a_trace_that_cannot_be_written_ends_all_with_the_reason(prepare: Prepare) -> None:
    run = prepare([4, 4], iterations=1_000_000, evaluate_every=0, mathematics="shapes")
    run.start(largest_file_bytes={1: 100_000})
    assert run.wait() == [1, 1]
    assert "spans.bin: cannot write the trace" in run.read(1, "outcome.json")["reason"]
    told = run.read(0, "outcome.json")["reason"]
    assert told.startswith("rank 1 (edge-2): ")
    assert "cannot write the trace" in told
    assert len(read_spans(run.directory(1) / "spans.bin")[1]) > 1000
