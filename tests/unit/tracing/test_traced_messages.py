"""Scripts whose ranks send each other messages, as stages of a pipeline do."""

from __future__ import annotations

from pathlib import Path

import pytest
from test_traced_script import torchrun, traced

from e2c_dl.archive.read import open_archive
from e2c_dl.trace.collectives import collectives
from e2c_dl.trace.model import Phase

PIPELINE = """
import time, torch, torch.distributed as dist
dist.init_process_group("gloo")
rank, group = dist.get_rank(), dist.new_group([0, 1])
torch.manual_seed(0)
stage = torch.nn.Linear(8, 8)
optimizer = torch.optim.SGD(stage.parameters(), lr=0.1)
for number in range(8):
    optimizer.zero_grad()
    if rank == 0:
        out = stage(torch.ones(4, 8))
        sent, gradient = dist.isend(out.detach(), 1), torch.empty(4, 8)
        sent.wait()
        dist.recv(gradient, group=group, group_src=1)
        out.backward(gradient)
    else:
        inputs = torch.empty(4, 8)
        dist.irecv(inputs, 0).wait()
        inputs.requires_grad_()
        time.sleep(0.05)
        stage(inputs).sum().backward()
        dist.send(inputs.grad, 0, group)
    optimizer.step()
dist.destroy_process_group()
"""


@pytest.mark.slow
def test_who_waits_for_a_message_waits_for_what_its_sender_did_before(tmp_path: Path) -> None:
    script = tmp_path / "main.py"
    script.write_text(PIPELINE, encoding="utf-8")
    done = traced(tmp_path / "archive", *torchrun(str(script)))
    assert done.returncode == 0, done.stderr
    trace = open_archive(tmp_path / "archive").trace()
    found = collectives(trace)
    assert (len(found), found.torn) == (16, 0), "each message has both its ends"
    assert found.sizes.tolist() == [2] * 16
    spans = trace.ranks[0].of(Phase.AWAIT_COLLECTIVE)
    assert (spans["end_ns"] - spans["start_ns"]).sum() > 8 * 0.04e9, "the gradients come as late as they are sent"
    assert (spans["seq"] >= 0).all()
