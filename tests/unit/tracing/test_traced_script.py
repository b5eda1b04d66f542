"""Scripts that know nothing of this project, traced as they are, each by one command."""

from __future__ import annotations

import json
import os
import socket
import subprocess
import sys
from collections import Counter
from pathlib import Path

import pytest

from e2c_dl.archive.read import open_archive
from e2c_dl.trace.model import Phase, RankTrace

pytest.importorskip("torch")

SCRIPTS = Path(__file__).parents[2] / "scripts"
ENVIRONMENT = {**os.environ, "OMP_NUM_THREADS": "1", "MKL_NUM_THREADS": "1"}


def traced(archive: Path, *command: str, **environment: str) -> subprocess.CompletedProcess[str]:
    """``command`` under `e2c-dl trace`, ended."""
    words = [sys.executable, "-c", "from e2c_dl.cli.main import main; main()", "trace", "--archive", str(archive)]
    return run(*words, "--", *command, **environment)


def run(*words: str, **environment: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        words, env={**ENVIRONMENT, **environment}, capture_output=True, text=True, check=False, timeout=200
    )


def torchrun(*words: str, ranks: int = 2) -> tuple[str, ...]:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port = probe.getsockname()[1]
    options = ("--nproc-per-node", str(ranks), "--master-port", str(port), "--log-dir", "/dev/null")
    return (sys.executable, "-m", "torch.distributed.run", *options[:4], *words)


def phases(rank: RankTrace) -> Counter[str]:
    return Counter(Phase(phase).name for phase in rank.spans["phase"])


def test_two_ranks_of_ddp_leave_one_archive_and_compute_what_they_compute_untraced(tmp_path: Path) -> None:
    script = str(SCRIPTS / "ddp_cnn.py")
    plain_model, model = (tmp_path / name / "model.pt" for name in ("plain", "traced"))  # a file holds its own name
    for path in (plain_model, model):
        path.parent.mkdir()
    plain = run(*torchrun(script, "--out", str(plain_model)))
    done = traced(tmp_path / "archive", *torchrun(script, "--out", str(model)))
    assert done.returncode == 0, done.stderr
    assert sorted(done.stdout.splitlines()) == sorted(plain.stdout.splitlines()), "to the digit"
    assert plain_model.read_bytes() == model.read_bytes(), "to the bit"
    archive = open_archive(tmp_path / "archive")
    trace = archive.trace()
    assert [rank.rank for rank in trace.ranks] == [0, 1]
    assert all(rank.complete for rank in trace.ranks)
    for rank in trace.ranks:
        found = phases(rank)
        assert found["ITERATION"] == found["STEP"] == 8
        assert found["TRAINING"] == 1
        assert min(found["DATA"], found["FORWARD"], found["BACKWARD"], found["AWAIT_COLLECTIVE"]) >= 8
    assert phases(trace.ranks[0])["CHECKPOINT"] == 1
    seqs = [[tuple(s) for s in r.spans[r.spans["phase"] == Phase.COLLECTIVE][["seq", "kind"]]] for r in trace.ranks]
    assert seqs[0] == seqs[1], "ranks number their collectives alike"
    assert {(link.src, link.dst) for link in trace.connections.data} == {(0, 1), (1, 0)}, "by their sockets"
    assert all(phases(rank)["FLOW"] for rank in trace.ranks)
    told = json.loads((archive.path / "hosts" / trace.ranks[0].host / "tracing.json").read_text())
    assert "DistributedDataParallel" in told["hooked"]


def test_python_processes_that_do_not_train_leave_nothing(tmp_path: Path) -> None:
    code = "import torch, subprocess, sys; print(subprocess.call([sys.executable, '-c', 'import torch']))"
    done = traced(tmp_path / "archive", sys.executable, "-c", code)
    assert (done.returncode, done.stdout) == (0, "0\n")
    assert "nothing was traced" in done.stderr
    assert not (tmp_path / "archive").exists()
