"""Ways in which scripts of others train: how ranks meet, where the tracer cannot see how, and what they leave."""

from __future__ import annotations

import sys
from collections import Counter
from pathlib import Path

import pytest
from test_traced_script import phases, run, torchrun, traced

from e2c_dl.archive.read import open_archive
from e2c_dl.trace.model import Phase
from e2c_dl.trace.recording.span_log import read_spans
from e2c_dl.tracing import folder
from e2c_dl.tracing.rendezvous import Alone, meet, own_peer

MESHED = """
import os, torch
from torch.distributed.device_mesh import init_device_mesh
from torch.distributed.tensor.parallel import ColwiseParallel, RowwiseParallel, parallelize_module
mesh = init_device_mesh("cpu", (int(os.environ["WORLD_SIZE"]),))
torch.manual_seed(0)
model = torch.nn.Sequential(torch.nn.Linear(8, 16), torch.nn.ReLU(), torch.nn.Linear(16, 4))
model = parallelize_module(model, mesh, {"0": ColwiseParallel(), "2": RowwiseParallel()})
optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
for number in range(4):
    model(torch.ones(4, 8)).sum().backward()
    optimizer.step()
torch.distributed.destroy_process_group()
"""


@pytest.mark.slow
def test_ranks_that_a_device_mesh_brings_together_meet(tmp_path: Path) -> None:
    pytest.importorskip("torch")
    script = tmp_path / "main.py"
    script.write_text(MESHED, encoding="utf-8")
    done = traced(tmp_path / "archive", *torchrun(str(script)))
    assert done.returncode == 0, done.stderr
    archive = open_archive(tmp_path / "archive")
    trace = archive.trace()
    assert [(rank.rank, phases(rank)["ITERATION"]) for rank in trace.ranks] == [(0, 4), (1, 4)]
    assert any("DTensor" in sentence for sentence in archive.run.limitations)


RESTING = """
import sys, torch
from pathlib import Path
from e2c_dl.tracing import attached
from e2c_dl.tracing.settings import Settings
archive, framework = sys.argv[1:]
tracer = attached.tracer(Settings(archive=Path(archive)))
tracer.imported("torch")
model = torch.nn.Linear(256, 256)
optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
if framework == "horovod":
    import horovod.torch as hvd
    tracer.imported("horovod.torch")
    hvd.init()
    optimizer = hvd.DistributedOptimizer(optimizer, named_parameters=model.named_parameters())
else:
    torch.distributed.init_process_group("gloo")
    model = torch.nn.parallel.DistributedDataParallel(model)
def train(count):
    for number in range(count):
        model(torch.ones(4, 256)).sum().backward()
        optimizer.step()
        optimizer.zero_grad()
train(3)
tracer.detach()
train(5)
tracer.attach()
train(4)
tracer.end()
"""


@pytest.mark.slow
@pytest.mark.parametrize("framework", ["ddp", "horovod"])
def test_hooks_that_are_taken_away_record_nothing_until_they_are_back(framework: str, tmp_path: Path) -> None:
    pytest.importorskip("torch")
    script = tmp_path / "main.py"
    script.write_text(RESTING, encoding="utf-8")
    if framework == "horovod":
        pytest.importorskip("horovod", reason="Horovod is not installed: make setup-horovod")
        launcher = "from horovod.runner.launch import run_commandline; run_commandline()"
        begun = (sys.executable, "-c", launcher, "-np", "2", "--gloo", sys.executable, str(script))
    else:
        begun = torchrun(str(script))
    done = run(*begun, str(tmp_path / "archive"), framework)
    assert done.returncode == 0, done.stderr
    for own in sorted((tmp_path / "archive" / "hosts").iterdir()):
        _, spans, _ = read_spans(own / "spans.bin")
        found = Counter(Phase(phase).name for phase in spans["phase"])
        assert [found[name] for name in ("ITERATION", "FORWARD", "AWAIT_COLLECTIVE")] == [7] * 3


@pytest.mark.parametrize("names", [("LOCAL_RANK", "LOCAL_WORLD_SIZE"), ("HOROVOD_LOCAL_RANK", "HOROVOD_LOCAL_SIZE")])
def test_ranks_of_one_host_that_know_nothing_of_each_other_have_folders_of_their_own(
    names: tuple[str, str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv(names[1], "2")
    folders = []
    for rank in range(2):
        monkeypatch.setenv(names[0], str(rank))
        folders.append(folder.make(tmp_path, meet(own_peer(rank, {}), 2, Alone(), within_s=0.0)).name)
    host = own_peer(0, {}).host
    assert folders == [f"{host}_0", f"{host}_1"]


def test_several_ranks_that_leave_nothing_never_stumble_over_each_other(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    own = tmp_path / "hosts" / "h0"
    own.mkdir(parents=True)
    rmdir = Path.rmdir
    monkeypatch.setattr(Path, "rmdir", lambda path: (rmdir(path), rmdir(path)))  # another rank was faster
    folder.remove(own)
    assert not own.parent.exists()


class Nobody(Alone):
    """Nobody comes; counts how often it is asked."""

    asked = 0

    def get(self, key: str) -> bytes | None:
        self.asked += 1
        return None


def test_a_launcher_is_asked_ever_more_rarely_for_a_rank_that_does_not_come() -> None:
    nobody = Nobody()
    assert meet(own_peer(0, {}), 2, nobody, within_s=0.6).missing == (1,)
    assert nobody.asked < 20
