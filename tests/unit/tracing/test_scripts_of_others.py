"""Scripts that do with models what others do: none of it breaks, or trains otherwise, since somebody looks on."""

from __future__ import annotations

from collections import Counter
from pathlib import Path

import pytest
from test_raising_scripts import attached

from e2c_dl.trace.model import Phase

pytest.importorskip("torch")

SAVED = """
import sys, time, torch
from torch.distributed import checkpoint
sys.path.insert(0, sys.argv[1])
from safetensors.torch import save_file
model = torch.nn.Linear(4, 1)
optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
class Slow:
    def state_dict(self):
        time.sleep(0.05)
        return model.state_dict()
    def load_state_dict(self, _):
        raise AssertionError
for number in range(2):
    model(torch.ones(2, 4)).sum().backward()
    optimizer.step()
    if number == 0:
        checkpoint.save({"model": Slow()}, checkpoint_id=sys.argv[1])
        save_file(model.state_dict(), "model")
"""


def test_a_checkpoint_is_all_that_saves_a_model_by_safetensors_too_or_in_shards(tmp_path: Path) -> None:
    library = tmp_path / "library" / "safetensors"
    library.mkdir(parents=True)
    (library / "__init__.py").touch()
    (library / "torch.py").write_text(
        "import time\ndef save(tensors): return bytes\ndef save_file(tensors, filename): time.sleep(0.05)\n"
    )
    script = tmp_path / "main.py"
    script.write_text(SAVED, encoding="utf-8")
    ((spans, _),) = attached(tmp_path / "archive", str(script), str(library.parent)).values()
    saved = spans[spans["phase"] == Phase.CHECKPOINT]
    assert set(saved["iteration"].tolist()) == {1}
    assert (saved["end_ns"] - saved["start_ns"] >= 50e6).sum() == 2


UNTOUCHED = """
import copy, gc, io, pickle, torch, weakref
from torch import distributed
from torch.distributed import distributed_c10d
class Stop(Exception): pass
def stop(*_):
    raise Stop
inner = torch.nn.Linear(4, 4)
model = torch.nn.Sequential(torch.nn.Sequential(inner))
optimizer = torch.optim.SGD([*model.parameters(), *inner.parameters(recurse=False)][:1], lr=0.1)
for number in range(3):
    model(torch.ones(2, 4)).sum().backward()
    optimizer.step()
inner.eval()
inner.register_forward_hook(stop)
inner.register_forward_hook(lambda *_: None)
for number in range(6):
    try:
        model(torch.ones(2, 4))
    except Stop:
        pass
fresh = torch.nn.Sequential(torch.nn.Linear(4, 4))
steps = torch.optim.SGD(fresh.parameters(), lr=0.1)
fresh(torch.ones(2, 4)).sum().backward()
steps.step()
twin = copy.deepcopy(fresh)
assert not twin._forward_hooks and not twin._forward_pre_hooks and not twin._forward_hooks_always_called
assert fresh._forward_hooks, "nobody looks on"
torch.jit.script(twin)
for each in (torch.save, torch.jit.script, distributed.all_reduce, distributed.init_process_group):
    assert pickle.loads(pickle.dumps(each)) is each
assert distributed.all_reduce is distributed_c10d.all_reduce
distributed.init_process_group("gloo", store=distributed.HashStore(), rank=0, world_size=1)
large = torch.nn.parallel.DistributedDataParallel(torch.nn.Linear(4, 4))
for number in range(4):
    large(torch.ones(2, 4)).sum().backward()
held = weakref.ref(large.module.weight)
del large
gc.collect()
assert held() is None, "what the script has no more is still there"
saved = torch.nn.Linear(4, 4)
steps = torch.optim.SGD(saved.parameters(), lr=0.1)
saved.register_forward_hook(lambda *_: torch.save({}, io.BytesIO()))
for number in range(3):
    saved(torch.ones(2, 4)).sum().backward()
    steps.step()
distributed.destroy_process_group()
"""


def test_exceptions_pickles_and_memory_are_the_scripts_own(tmp_path: Path) -> None:
    ((spans, _),) = attached(tmp_path, "-c", UNTOUCHED).values()
    forwards = spans[(spans["phase"] == Phase.FORWARD) & (spans["end_ns"] > spans["start_ns"])]
    assert len(forwards) >= 3 + 4 + 3


WITHIN = """
import dataclasses, torch
from torch import distributed
from torch.nn.parallel import DistributedDataParallel as Parallel
distributed.init_process_group("gloo", store=distributed.HashStore(), rank=0, world_size=1)
model = torch.nn.Linear(4, 2)
optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
parallel = Parallel(model)
for epoch in range(3):
    parallel.train()
    for number in range(4):
        parallel(torch.ones(2, 4)).sum().backward()
        optimizer.step()
    parallel.eval()
    with torch.no_grad():
        model(torch.ones(2, 4))  # as a rank does that evaluates alone
distributed.destroy_process_group()
@dataclasses.dataclass
class Unhashable(torch.nn.Module):
    width: int
    def __post_init__(self):
        super().__init__()
Unhashable(4).train().eval()
"""


def test_what_a_parallel_module_has_within_is_evaluated_once_that_was_told_to(tmp_path: Path) -> None:
    ((spans, _),) = attached(tmp_path, "-c", WITHIN).values()
    found = Counter(Phase(phase).name for phase in spans["phase"])
    assert (found["FORWARD"], found["EVALUATE"]) == (12, 3)


ALTERNATING = """
import torch
from torch import distributed
from torch.nn.parallel import DistributedDataParallel as Parallel
distributed.init_process_group("gloo", store=distributed.HashStore(), rank=0, world_size=1)
made, told = Parallel(torch.nn.Linear(4, 4)), Parallel(torch.nn.Linear(4, 1))
optimizers = [torch.optim.SGD(each.parameters(), lr=0.1) for each in (made, told)]
def trained(yes, no):
    for each in yes.parameters():
        each.requires_grad_(True)
    for each in no.parameters():
        each.requires_grad_(False)
for number in range(6):
    for times, yes, no in ((3, told, made), (1, made, told)):
        trained(yes, no)
        for _ in range(times):
            told(made(torch.ones(2, 4))).sum().backward()
            [each.step() for each in optimizers]
            [each.zero_grad() for each in optimizers]
print("trained")
distributed.destroy_process_group()
"""

TOGETHER = """
import torch
from torch import distributed
from torch.nn.parallel import DistributedDataParallel as Parallel
distributed.init_process_group("gloo", store=distributed.HashStore(), rank=0, world_size=1)
class Gathered(torch.autograd.Function):
    @staticmethod
    def forward(context, values):
        return values * 1
    @staticmethod
    def backward(context, gradient):
        distributed.all_reduce(gradient)
        return gradient
encoder, decoder = Parallel(torch.nn.Linear(4, 4)), Parallel(torch.nn.Linear(4, 1))
optimizer = torch.optim.SGD([*encoder.parameters(), *decoder.parameters()], lr=0.1)
for number in range(6):
    loss = decoder(Gathered.apply(encoder(torch.ones(2, 4)))).sum()
    with torch.no_grad():
        encoder(torch.ones(2, 4))
    loss.backward()
    optimizer.step()
    optimizer.zero_grad()
distributed.destroy_process_group()
"""


def test_models_that_are_frozen_by_turns_are_seen_whenever_they_train(tmp_path: Path) -> None:
    ((spans, _),) = attached(tmp_path, "-c", ALTERNATING).values()
    assert (spans["phase"] == Phase.BACKWARD).sum() >= 24
    assert (spans["phase"] == Phase.COLLECTIVE).sum() == 24


def test_each_of_several_reductions_within_one_backward_has_a_number_of_its_own(tmp_path: Path) -> None:
    ((spans, _),) = attached(tmp_path, "-c", TOGETHER).values()
    collectives = spans[spans["phase"] == Phase.COLLECTIVE]
    numbers = Counter(zip(collectives["peer_task"].tolist(), collectives["seq"].tolist(), strict=True))
    assert len(numbers) == len(collectives) == 6 * 3
    assert set(numbers.values()) == {1}


UNFROZEN = """
import torch
model, other = torch.nn.Sequential(torch.nn.Linear(8, 8), torch.nn.Linear(8, 8)), torch.nn.Linear(8, 8)
def train(*optimizers):
    for number in range(4):
        other(model(torch.ones(2, 8))).sum().backward()
        for optimizer in optimizers:
            optimizer.step()
first = torch.optim.SGD(model[1].parameters(), lr=0.1)
train(first)
second = torch.optim.SGD(model.parameters(), lr=0.1)
train(second)
train(second, torch.optim.SGD(other.parameters(), lr=0.1))
third = torch.optim.SGD(model.parameters(), lr=0.1)
train(second, third)
train(first)
"""


def test_an_optimizer_that_takes_anothers_place_ends_iterations_from_its_first_step_on(tmp_path: Path) -> None:
    """Nobody else does: one of other parameters, or one that is used beside the former."""
    ((spans, _),) = attached(tmp_path, "-c", UNFROZEN).values()
    assert (spans["phase"] == Phase.ITERATION).sum() == 4 + 4 + 4 + 4 + 3, "the last one was not made anew"


PIECES = """
import torch
from torch.utils.checkpoint import checkpoint
class Model(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.body, self.head = torch.nn.Linear(64, 64), torch.nn.Linear(64, 64)
    def forward(self, values):
        return self.head(checkpoint(self.body, values, use_reentrant=True))
told, untold = Model(), Model()
told.train()
for model in (told, untold):  # asked for parameters in pieces
    optimizer = torch.optim.SGD([{"params": model.body.parameters()}, {"params": model.head.parameters()}], lr=0.1)
    for number in range(4):
        loss = model(torch.ones(8, 64, requires_grad=True)).pow(2).mean()
        if model is told:
            torch.autograd.grad(loss, model.head.weight, create_graph=True)
        loss.backward()
        optimizer.step()
with torch.no_grad():
    told(torch.ones(8, 64))
"""


def test_models_that_are_trained_piece_by_piece_have_forwards_and_gradients_that_are_asked_for_are_backward(
    tmp_path: Path,
) -> None:
    ((spans, _),) = attached(tmp_path, "-c", PIECES).values()
    count = {number: Counter(spans["phase"][spans["iteration"] == number]) for number in range(8)}
    assert {count[number][Phase.EVALUATE] for number in range(8)} == {0}, "a checkpoint's forward is none"
    assert {count[number][Phase.FORWARD] for number in range(1, 4)} == {2}, "the whole, and what is computed again"
    assert {count[number][Phase.BACKWARD] for number in range(1, 4)} == {3}
    assert {count[number][Phase.FORWARD] for number in range(5, 8)} == {3}
    assert {count[number][Phase.BACKWARD] for number in range(5, 8)} == {2}
    assert (spans["phase"] == Phase.EVALUATE).sum() == 1
