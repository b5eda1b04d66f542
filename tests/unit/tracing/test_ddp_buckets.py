"""What DistributedDataParallel is asked of its buckets: when, and what is traced where it does not answer."""

from __future__ import annotations

from pathlib import Path

import pytest
from test_raising_scripts import attached

from e2c_dl.trace.model import Phase
from e2c_dl.tracing.hooks.parallel import UNJOINED, UNKNOWN

pytest.importorskip("torch")

ASKED = """
import sys, torch
from torch import distributed
from torch._C._distributed_c10d import Reducer
events, ask, answers = [], Reducer._get_zeros_like_grad_buckets, iter(sys.argv[1])
def asked(self):
    events.append("asked")
    if next(answers) == "-":
        raise torch.OutOfMemoryError("CUDA out of memory. Tried to allocate 20.00 MiB.\\nSee the documentation")
    return ask(self)
Reducer._get_zeros_like_grad_buckets = asked
distributed.init_process_group("gloo", store=distributed.HashStore(), rank=0, world_size=1)
layers = [torch.nn.Linear(300, 300) for _ in range(6)]
model = torch.nn.parallel.DistributedDataParallel(torch.nn.Sequential(*layers), bucket_cap_mb=1)
next(model.parameters()).register_post_accumulate_grad_hook(lambda _: events.append("last gradient"))
optimizer = torch.optim.SGD(model.parameters(), lr=0.01)
for number in range(6):
    events.append("forward")
    model(torch.ones(2, 300)).sum().backward()
    optimizer.step()
    optimizer.zero_grad()
one = ["forward", "last gradient"]
assert events == ["asked", *one, *one, "asked", *one * 4], events
distributed.destroy_process_group()
"""


@pytest.mark.parametrize(
    ("answers", "buckets"), [("++", [1, 1, 2, 2, 2, 2]), ("+-", [1] * 6), ("-+", [1, 1] + [2] * 4)]
)
def test_ddp_is_asked_where_nothing_else_needs_memory_and_a_script_trains_on_if_it_fails(
    answers: str, buckets: list[int], tmp_path: Path
) -> None:
    ((spans, limitations),) = attached(tmp_path, "-c", ASKED, answers).values()
    collectives = spans[spans["phase"] == Phase.COLLECTIVE]
    assert [(collectives["iteration"] == each).sum() for each in range(6)] == buckets
    assert {each.partition(":")[0] for each in limitations} == (
        {UNKNOWN.partition(":")[0]} if "-" in answers else set()
    )
    joined = {"++": 10, "+-": 2, "-+": 0}
    assert (collectives["seq"] < UNJOINED).sum() == joined[answers]
    seqs = sorted(collectives["seq"].tolist())
    assert len(set(seqs)) == len(seqs)
