"""What hooks cost is counted in functions of Python that they call: between torch's kernels caches are cold, and each
takes some 5 us there. How long that is in all ``benchmarks.overhead`` measures; this is what no machine changes."""

from __future__ import annotations

import sys
from pathlib import Path

import pytest
from test_traced_script import traced

pytest.importorskip("torch")

MOST_CALLS = 11
"""Of an iteration: loader, forward (2), backward (3), its only bucket, step (2), its end, and a round of sockets, which
iterations as short as these share."""

COUNTED = """
import sys, torch
from torch import distributed, nn, utils

distributed.init_process_group("gloo", store=distributed.HashStore(), rank=0, world_size=1)
model = nn.parallel.DistributedDataParallel(nn.Linear(8, 8))
optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
def train(count):
    for inputs, _ in zip(utils.data.DataLoader(torch.ones(8 * count, 8), batch_size=8), range(count)):
        model(inputs).sum().backward()
        optimizer.step()
train(30)
called = []
def count(frame, event, _):
    if event == "call" and "e2c_dl" in frame.f_code.co_filename:
        called.append(frame.f_code.co_name)
sys.setprofile(count)
train(100)
sys.setprofile(None)
print(len(called) / 100, sorted(set(called)))
"""


def test_hooks_of_an_iteration_call_few_functions(tmp_path: Path) -> None:
    done = traced(tmp_path / "archive", sys.executable, "-c", COUNTED)
    assert done.returncode == 0, done.stderr
    calls, _, names = done.stdout.partition(" ")
    assert {"__next__", "began", "ended", "begins", "end_iteration"} <= {*eval(names)}
    assert 8 < float(calls) < MOST_CALLS + 1, names
