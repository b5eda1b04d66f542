"""Scripts that know nothing of this project, traced as they are, each by one command."""

from __future__ import annotations

import json
import os
import socket
import subprocess
import sys
from collections import Counter
from importlib.util import find_spec
from pathlib import Path

import pytest
from thorough import few

from e2c_dl.archive.read import open_archive
from e2c_dl.memory import cpu_model
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


def horovodrun(*words: str) -> tuple[str, ...]:
    if find_spec("horovod") is None:
        pytest.skip("Horovod is not installed: make setup-horovod")
    program = "from horovod.runner.launch import run_commandline; run_commandline()"
    return (sys.executable, "-c", program, "-np", "2", "--gloo", *words)


def phases(rank: RankTrace) -> Counter[str]:
    return Counter(Phase(phase).name for phase in rank.spans["phase"])


STEPS = """
import os, sys, torch
model = torch.nn.Linear(8, 2)
optimizer = torch.optim.Adam(model.parameters())
for number in range(6):
    model(torch.ones(4, 8)).sum().backward()
    optimizer.step()
    optimizer.zero_grad()
os.write(1, bytes(range(256)))
"""


PLAIN, ALL_AT_ONCE = (), ("--accumulate", "2", "--amp", "--epochs", "1", "--workers", "1")


@pytest.mark.slow
@pytest.mark.parametrize("options", few([PLAIN, ALL_AT_ONCE], ALL_AT_ONCE))
def test_two_ranks_of_ddp_leave_one_archive_and_compute_what_they_compute_untraced(
    tmp_path: Path, options: tuple[str, ...]
) -> None:
    script, steps = str(SCRIPTS / "ddp_cnn.py"), 2 if options else 8
    plain_model, model = (tmp_path / name / "model.pt" for name in ("plain", "traced"))  # a file holds its own name
    for path in (plain_model, model):
        path.parent.mkdir()
    plain = run(*torchrun(script, *options, "--out", str(plain_model)))
    done = traced(tmp_path / "archive", *torchrun(script, *options, "--out", str(model)))
    assert done.returncode == 0, done.stderr
    assert sorted(done.stdout.splitlines()) == sorted(plain.stdout.splitlines()), "to the digit"
    assert plain_model.read_bytes() == model.read_bytes(), "to the bit"
    archive = open_archive(tmp_path / "archive")
    trace = archive.trace()
    assert [rank.rank for rank in trace.ranks] == [0, 1]
    assert all(rank.complete for rank in trace.ranks)
    for rank in trace.ranks:
        found = phases(rank)
        assert found["ITERATION"] == found["STEP"] == steps
        assert found["TRAINING"] == 1
        assert min(found["DATA"], found["FORWARD"], found["BACKWARD"], found["AWAIT_COLLECTIVE"]) >= steps
    assert phases(trace.ranks[0])["CHECKPOINT"] == 1
    seqs = [[tuple(s) for s in r.spans[r.spans["phase"] == Phase.COLLECTIVE][["seq", "kind"]]] for r in trace.ranks]
    assert seqs[0] == seqs[1], "ranks number their collectives alike"
    assert {(link.src, link.dst) for link in trace.connections.data} == {(0, 1), (1, 0)}, "by their sockets"
    assert all(phases(rank)["FLOW"] for rank in trace.ranks)
    told = json.loads((archive.path / "hosts" / trace.ranks[0].host / "tracing.json").read_text())
    assert "DistributedDataParallel" in told["hooked"]


def test_a_command_that_cannot_begin_leaves_nothing(tmp_path: Path) -> None:
    done = traced(tmp_path / "archive", "no-such-program")
    assert (done.returncode, done.stderr.count("\n")) == (2, 1)
    assert list(tmp_path.iterdir()) == []


def test_a_folder_of_other_things_is_no_archive(tmp_path: Path) -> None:
    (tmp_path / "thesis.tex").write_text("mine")
    done = traced(tmp_path, sys.executable, "-c", "print('trained')")
    assert (done.returncode, done.stdout) == (2, "")
    assert "is not empty; name a new directory with --archive" in done.stderr


def test_python_processes_that_do_not_train_leave_nothing(tmp_path: Path) -> None:
    code = "import torch, subprocess, sys; print(subprocess.call([sys.executable, '-c', 'import torch']))"
    done = traced(tmp_path / "archive", sys.executable, "-c", code)
    assert (done.returncode, done.stdout) == (0, "0\n")
    assert "nothing was traced" in done.stderr
    assert not (tmp_path / "archive").exists()


@pytest.mark.parametrize(
    ("ending", "code", "said"),
    [
        ("sys.exit(3)", 3, "the command exited with 3"),
        ("raise ValueError('no such thing')", 1, "ValueError: no such thing"),
        pytest.param("os._exit(7)", 7, "its process ended without a word", marks=pytest.mark.thorough),
        ("os.kill(os.getpid(), 9)", 137, "its process ended without a word"),
    ],
)
def test_however_a_script_ends_its_exit_code_is_its_own(tmp_path: Path, ending: str, code: int, said: str) -> None:
    archive = tmp_path / "archive"
    words = [sys.executable, "-c", "from e2c_dl.cli.main import main; main()", "trace", "--archive", str(archive)]
    written = "import time; time.sleep(1.2)" if ending.startswith("os.") else ""  # who is killed loses the last second
    script = f"{STEPS}\n{written}\n{ending}\n"
    done = subprocess.run(
        [*words, "--", sys.executable, "-c", script], env=ENVIRONMENT, capture_output=True, check=False, timeout=100
    )
    assert (done.returncode, done.stdout) == (code, bytes(range(256))), done.stderr
    assert said in done.stderr.decode()
    (rank,) = open_archive(archive).trace().ranks
    assert phases(rank)["ITERATION"] == 6
    facts = open_archive(archive).host_facts[rank.host]
    assert facts is not None and facts.cpu_model == cpu_model()
    assert "archive" in done.stderr.decode()


EVALUATED = f"""
{STEPS}
model.eval()
for number in range(3):
    model(torch.ones(4, 8)).sum().item()
model.train()
model(torch.ones(4, 8)).sum().backward()
optimizer.step()
"""


def test_a_model_that_evaluates_and_keeps_gradients_is_no_forward_of_the_next_iteration(tmp_path: Path) -> None:
    done = subprocess.run(
        [sys.executable, "-c", "from e2c_dl.cli.main import main; main()", "trace", "--archive",
         str(tmp_path / "archive"), "--", sys.executable, "-c", EVALUATED],
        env=ENVIRONMENT, capture_output=True, check=False, timeout=100,
    )  # fmt: skip
    assert done.returncode == 0, done.stderr
    (rank,) = open_archive(tmp_path / "archive").trace().ranks
    found = phases(rank)
    assert (found["FORWARD"], found["EVALUATE"], found["ITERATION"]) == (7, 3, 7)


STEPLESS = """
import io, torch
def twice(x: int) -> int:
    return 2 * x
def within():
    def own(x: int) -> int:
        return x + 1
    @torch.jit.script
    def both(x: int) -> int:
        return own(twice(x))
    return both
assert within()(3) == 7, "names are looked up where the script has them"
model = torch.nn.Linear(8, 2)
model.eval()
saved = io.BytesIO()
torch.save(model, saved)
for number in range(7):
    model(torch.ones(4, 8)).sum().backward()
    for parameter in model.parameters():
        parameter.data.add_(parameter.grad, alpha=-0.1)
        parameter.grad = None
print(b"nullcontext" in saved.getvalue())
"""


def test_a_script_without_optimizer_is_traced_by_its_backwards_and_saves_models_as_they_are(tmp_path: Path) -> None:
    script = tmp_path / "script.py"
    script.write_text(STEPLESS, encoding="utf-8")
    done = traced(tmp_path / "archive", sys.executable, str(script))
    assert (done.returncode, done.stdout) == (0, "False\n"), done.stderr
    archive = open_archive(tmp_path / "archive")
    (rank,) = archive.trace().ranks
    assert phases(rank)["ITERATION"] == phases(rank)["BACKWARD"] == 5, "two passes may be anybody's"
    assert any("no optimizer was made" in sentence for sentence in archive.run.limitations)


FULL = STEPS.replace("range(6)", "range(600)").replace(
    "for number", "import resource; resource.setrlimit(resource.RLIMIT_FSIZE, (9000, 9000))\nfor number"
)


def test_a_disk_that_becomes_full_ends_the_trace_and_not_the_script(tmp_path: Path) -> None:
    words = [sys.executable, "-c", "from e2c_dl.cli.main import main; main()", "trace"]
    words += ["--archive", str(tmp_path / "archive"), "--", sys.executable, "-c", FULL]
    done = subprocess.run(words, env=ENVIRONMENT, capture_output=True, check=False, timeout=200)
    assert (done.returncode, done.stdout) == (0, bytes(range(256))), done.stderr
    assert done.stderr.decode().count("cannot write the trace: File too large") == 1
    (rank,) = open_archive(tmp_path / "archive").trace().ranks
    assert 0 < phases(rank)["ITERATION"] < 600 and not rank.complete


def test_folders_of_several_hosts_become_one_archive(tmp_path: Path) -> None:
    for rank in range(2):
        place, told = tmp_path / str(rank), {"E2CDL_RANK": str(rank), "E2CDL_WORLD_SIZE": "2", "E2CDL_HOST": f"h{rank}"}
        done = traced(place, sys.executable, "-c", STEPS.replace("os.write(1, bytes(range(256)))", ""), **told)
        assert "are not here; `e2c-dl collect" in done.stderr
    command = "from e2c_dl.cli.main import main; main()"
    folders = [str(tmp_path / str(rank)) for rank in range(2)]
    done = run(sys.executable, "-c", command, "collect", *folders, "--archive", str(tmp_path / "all"))
    assert done.returncode == 0, done.stderr
    assert [rank.host for rank in open_archive(tmp_path / "all").trace().ranks] == ["h0", "h1"]
    again = run(sys.executable, "-c", command, "collect", folders[0], folders[0], "--archive", str(tmp_path / "twice"))
    assert again.returncode == 2
    assert "is there twice" in again.stderr


@pytest.mark.slow
def test_two_ranks_of_horovod_compute_what_they_compute_untraced(tmp_path: Path) -> None:
    launched = horovodrun(sys.executable, str(SCRIPTS / "horovod_mlp.py"), "--out")
    plain_model, model = (tmp_path / name / "model.pt" for name in ("plain", "traced"))
    for path in (plain_model, model):
        path.parent.mkdir()
    plain = run(*launched, str(plain_model), HOROVOD_FUSION_THRESHOLD="0")
    assert plain.returncode == 0, plain.stderr
    timeline = tmp_path / "timeline.json"
    environment = {"HOROVOD_FUSION_THRESHOLD": "0", "HOROVOD_TIMELINE": str(timeline)}
    done = traced(tmp_path / "archive", *launched, str(model), **environment)
    assert done.returncode == 0, done.stderr
    assert plain_model.read_bytes() == model.read_bytes(), "to the bit"
    archive = open_archive(tmp_path / "archive")
    for rank in archive.trace().ranks:
        found = phases(rank)
        assert found["ITERATION"] == 8, "Horovod's own step, before training, is none"
        assert min(found["BACKWARD"], found["COLLECTIVE"]) >= 16, "in buckets"
    assert list((archive.path / "hosts").glob("*/timeline.json"))
