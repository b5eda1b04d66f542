"""What scripts do that is easily altered by who watches: traced, they print what they print untraced."""

from __future__ import annotations

import sys
from collections import Counter
from pathlib import Path

import pytest
from test_traced_script import run, traced

from e2c_dl.trace.model import Phase
from e2c_dl.trace.store import read_trace

pytest.importorskip("torch")

FAST_PATH = """
import torch
torch.manual_seed(0)
encoder = torch.nn.TransformerEncoderLayer(8, 2, batch_first=True).eval()
for part in encoder.modules():
    list(part.named_parameters(recurse=False))  # as groups of parameters are made
with torch.no_grad(), torch.profiler.profile() as profiler:
    made = [encoder(torch.randn(2, 5, 8)) for _ in range(2)]
print(any("_transformer_encoder_layer_fwd" in each.key for each in profiler.key_averages()))
print([each.double().sum().item().hex() for each in made])
"""

SCRIPTED = """
import torch
class Net(torch.jit.ScriptModule):
    def __init__(self):
        super().__init__()
        self.linear = torch.nn.Linear(2, 2).eval()
    @torch.jit.script_method
    def forward(self, inputs):
        return self.linear(inputs)
print(Net()(torch.ones(1, 2)).shape)
"""

OF_TORCHSCRIPT = """
import torch
@torch.jit.script
def slope(inputs: torch.Tensor):
    torch.autograd.backward([inputs.sum()])
    return torch.autograd.grad([inputs.pow(2).sum()], [inputs])[0]
print(slope(torch.ones(2, requires_grad=True)))
torch.manual_seed(0)
encoder = torch.nn.TransformerEncoderLayer(8, 2, dropout=0.0, batch_first=True)
sizes = [each.numel() for each in encoder.linear1.parameters()]
print(torch.jit.script(encoder)(torch.ones(1, 3, 8)).shape, sizes)
try:
    torch.cuda.make_graphed_callables(encoder.linear1, (torch.ones(1, 8),))
except Exception as error:
    print("hooks" in str(error))
"""

SAVED_MEANWHILE = """
import io, threading, torch
kept, over = [torch.nn.Linear(1, 1).eval() for _ in range(2000)], threading.Event()
def copies():
    while not over.is_set():
        kept.append(torch.nn.Linear(1, 1).eval())
other = threading.Thread(target=copies)
other.start()
try:
    for _ in range(100):
        torch.save({}, io.BytesIO())
finally:
    over.set()
    other.join()
print("saved")
"""

STORE = """
import os, sys, torch.distributed as dist
file = sys.argv[1]
dist.init_process_group("gloo", init_method=f"file://{file}", rank=0, world_size=1)
dist.destroy_process_group()
print(os.path.exists(file))
"""

UNPICKLED = """
import sys, torch
file = sys.argv[1]
model = torch.nn.Linear(4, 2)
torch.save((model, torch.optim.SGD(model.parameters(), lr=0.1)), file)
"""

TRAINED = """
import sys, torch
model, optimizer = torch.load(sys.argv[1], weights_only=False)
for _ in range(10):
    model(torch.ones(2, 4)).sum().backward()
    optimizer.step()
    optimizer.zero_grad()
"""


@pytest.mark.parametrize(
    "script", [FAST_PATH, SCRIPTED, OF_TORCHSCRIPT, pytest.param(SAVED_MEANWHILE, marks=pytest.mark.thorough), STORE]
)
def test_it_prints_what_it_prints_untraced(script: str, tmp_path: Path) -> None:
    (tmp_path / "main.py").write_text(script)  # TorchScript reads it
    words = (sys.executable, str(tmp_path / "main.py"))
    untraced = run(*words, str(tmp_path / "one"))
    found = traced(tmp_path / "archive", *words, str(tmp_path / "other"))
    assert (found.returncode, found.stdout) == (untraced.returncode, untraced.stdout), found.stderr
    assert untraced.stdout and not untraced.returncode


def test_steps_of_an_optimizer_that_was_unpickled_end_iterations_alone(tmp_path: Path) -> None:
    assert run(sys.executable, "-c", UNPICKLED, str(tmp_path / "both")).returncode == 0
    assert traced(tmp_path / "archive", sys.executable, "-c", TRAINED, str(tmp_path / "both")).returncode == 0
    (rank,) = read_trace(tmp_path / "archive").ranks
    found = Counter(Phase(phase).name for phase in rank.spans["phase"])
    assert (found["ITERATION"], found["STEP"]) == (10, 10)
