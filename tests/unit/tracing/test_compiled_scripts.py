"""Scripts that compile their models, or functions of their own: what is compiled is what would be untraced."""

from __future__ import annotations

from collections import Counter
from pathlib import Path

import pytest
from test_raising_scripts import attached

from e2c_dl.trace.model import Collective, Phase

pytest.importorskip("torch")

COMPILED = """
import io, torch, warnings
from torch._dynamo.utils import counters
class Model(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.first, self.second = torch.nn.Linear(4, 4), torch.nn.Linear(4, 1)
    def forward(self, values):
        return self.second(self.first(values))
model = Model()
optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
compiled = torch.compile(model, backend="eager")
for number in range(4):
    compiled(torch.ones(2, 4)).sum().backward()
    optimizer.step()
    torch.save(model.state_dict(), io.BytesIO())
assert counters["stats"]["unique_graphs"] == 1, counters["stats"]
torch.export.export(model, (torch.ones(2, 4),), strict=True)
warnings.filterwarnings("error", category=UserWarning)
@torch.compile(backend="eager")
def step():
    optimizer.step()
class Own(torch.optim.Optimizer):
    @torch.no_grad()
    def step(self):
        for each in self.param_groups[0]["params"]:
            each.add_(each.grad, alpha=-0.1)
own = Own(model.parameters(), {})
@torch.compile(backend="eager", fullgraph=True)
def whole():
    own.step()
frames = counters["frames"]["total"]
for number in range(3):
    model(torch.ones(2, 4)).sum().backward()
    step()
    whole()
assert counters["frames"]["total"] < frames + 100, "what looks on is compiled"
"""


def test_what_is_compiled_is_compiled_once_though_it_is_saved_and_can_be_exported(tmp_path: Path) -> None:
    ((spans, _),) = attached(tmp_path, "-c", COMPILED).values()
    assert (spans["phase"] == Phase.CHECKPOINT).sum() == 4
    assert (spans["phase"] == Phase.STEP).sum() == 4 + 3  # those of one that is compiled whole are not seen


STEPS_COMPILED = """
import io, torch, warnings
from torch import distributed
from torch._dynamo.utils import counters
from torch.nn.parallel import DistributedDataParallel as Parallel
warnings.filterwarnings("error", category=UserWarning)
distributed.init_process_group("gloo", store=distributed.HashStore(), rank=0, world_size=1)
model = torch.nn.Sequential(torch.nn.Linear(4, 4), torch.nn.BatchNorm1d(4))
optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
@torch.compile(backend="eager")
def loss_of(values):
    return model(values).sum()
for number in range(12):
    loss_of(torch.ones(2, 4)).backward()
    optimizer.step()
    torch.save(model.state_dict(), io.BytesIO())
assert counters["stats"]["unique_graphs"] == 1, counters["stats"]
@torch.compile(backend="eager")
def kept(values):
    distributed.all_reduce(values, async_op=True).wait()
    torch.save(values, io.BytesIO())
    return values * 2
kept(torch.ones(2))
parallel = Parallel(torch.nn.BatchNorm1d(4))
compiled = torch.compile(parallel, backend="eager")
optimizer = torch.optim.SGD(parallel.parameters(), lr=0.1)
for number in range(3):
    compiled(torch.ones(2, 4)).sum().backward()
    optimizer.step()
distributed.destroy_process_group()
"""


def test_what_is_called_of_compiled_functions_is_seen_and_no_reason_to_compile_anew(tmp_path: Path) -> None:
    ((spans, _),) = attached(tmp_path, "-c", STEPS_COMPILED).values()
    assert (spans["phase"] == Phase.CHECKPOINT).sum() == 12 + 1
    kinds = Counter(spans["kind"][spans["phase"] == Phase.COLLECTIVE].tolist())
    assert kinds == {Collective.ALL_REDUCE: 1 + 3, Collective.BROADCAST: 3}


EXPORTED = """
import torch
model = torch.nn.Sequential(torch.nn.Linear(4, 4))
optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
for number in range(3):
    model(torch.ones(2, 4)).sum().backward()
    optimizer.step()
exported = torch.export.export(model, (torch.ones(2, 4),), strict=True)
torch.export.draft_export(model, (torch.ones(2, 4),), strict=True)
assert torch.equal(exported.module()(torch.ones(2, 4)), model(torch.ones(2, 4)))
"""


def test_a_model_that_was_trained_can_be_exported_whole_though_nothing_was_compiled(tmp_path: Path) -> None:
    ((spans, _),) = attached(tmp_path, "-c", EXPORTED).values()
    assert (spans["phase"] == Phase.STEP).sum() == 3
