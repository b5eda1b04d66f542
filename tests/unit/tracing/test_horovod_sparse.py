"""Horovod's optimizer with sparse gradients, each of which it gathers and waits for in its own way."""

from __future__ import annotations

import sys
from pathlib import Path

import pytest
from test_traced_script import horovodrun, traced

from e2c_dl.archive.read import open_archive
from e2c_dl.trace.model import Phase

SPARSE = """
import horovod.torch as hvd, torch
hvd.init()
torch.manual_seed(1)
table = torch.nn.Embedding(64, 512, sparse=True)
model = torch.nn.Sequential(table, torch.nn.Flatten(), torch.nn.Linear(4 * 512, 256), torch.nn.Linear(256, 2))
optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
optimizer = hvd.DistributedOptimizer(optimizer, named_parameters=model.named_parameters())
for number in range(6):
    optimizer.zero_grad()
    model(torch.arange(8).reshape(2, 4) + number).sum().backward()
    optimizer.step()
"""
WITHIN_ANOTHER = (Phase.FORWARD, Phase.BACKWARD, Phase.STEP, Phase.AWAIT_COLLECTIVE)


@pytest.mark.slow
def test_what_is_waited_for_in_a_step_is_told_once_and_is_no_part_of_the_step(tmp_path: Path) -> None:
    script = tmp_path / "main.py"
    script.write_text(SPARSE, encoding="utf-8")
    done = traced(tmp_path / "archive", *horovodrun(sys.executable, str(script)))
    assert done.returncode == 0, done.stderr
    for rank in open_archive(tmp_path / "archive").trace().ranks:
        spans = rank.of(*WITHIN_ANOTHER)
        spans = spans[spans["start_ns"].argsort()]
        assert (spans["start_ns"][1:] >= spans["end_ns"][:-1]).all(), "one at a time"
        awaited = spans[spans["phase"] == Phase.AWAIT_COLLECTIVE]
        assert len(awaited) == 6, "as many as steps"
