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


PASSES = """
import io, sys, torch
from torch import distributed
from torch.nn.parallel import DistributedDataParallel as Parallel
distributed.init_process_group("gloo", store=distributed.HashStore(), rank=0, world_size=1)
first, last = torch.nn.Linear(8, 8), torch.nn.Linear(8, 1)
model = Parallel(
    torch.nn.Sequential(first, last),
    find_unused_parameters=sys.argv[1] == "frozen", static_graph=sys.argv[1] == "static",
)
optimizer = torch.optim.SGD([*first.parameters(), *last.parameters()], lr=0.1)
others = []
def step(way):
    ones = torch.ones(2, 8)
    if way == "inner":  # of which DDP knows nothing
        model.module(ones).sum().backward()
    elif way == "twice":  # it reduces the first
        loss = model(ones).sum()
        loss.backward(retain_graph=True)
        loss.backward()
    elif way == "looked at":  # its newest forward keeps no gradients
        loss = model(ones).sum()
        with torch.no_grad():
            model(ones)
        loss.backward()
    elif way == "no sync":
        with model.no_sync():
            model(ones).sum().backward()
    elif way == "together":  # as one of two, over another group
        model(others[0](ones)).sum().backward()
    else:
        model(ones).sum().backward()
    optimizer.step()
    optimizer.zero_grad()
for _ in range(5):
    step("reduced")
if sys.argv[1] == "frozen":
    for each in last.parameters():
        each.requires_grad_(False)
if sys.argv[1] == "copied":
    content = io.BytesIO()
    torch.save(model, content)
    content.seek(0)
    model = torch.load(content, weights_only=False)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
if sys.argv[1] == "wrapped again":
    others.append(model)
    model = Parallel(model.module)
if sys.argv[1] == "together":
    others.append(Parallel(torch.nn.Linear(8, 8), process_group=distributed.new_group([0])))
for _ in range(4):
    step(sys.argv[1])
for _ in range(3):
    step("reduced")
distributed.destroy_process_group()
"""


@pytest.mark.parametrize(
    ("way", "reduced"),
    [
        ("inner", 0), ("twice", 4), ("looked at", 4), ("no sync", 0), ("frozen", 4), ("copied", 4),
        ("wrapped again", 4), ("together", 8), ("static", 4),
    ],
)  # fmt: skip
def test_what_ddp_reduced_is_told_whatever_a_script_does_between_forward_and_backward(
    way: str, reduced: int, tmp_path: Path
) -> None:
    ((spans, limitations),) = attached(tmp_path, "-c", PASSES, way).values()
    waits, collectives = (spans[spans["phase"] == each] for each in (Phase.AWAIT_COLLECTIVE, Phase.COLLECTIVE))
    assert len(waits) == 5 + reduced + 3
    numbers = set(zip(collectives["peer_task"].tolist(), collectives["seq"].tolist(), strict=True))
    assert len(numbers) == len(collectives) >= len(waits)
    assert not any(each.startswith(UNKNOWN) for each in limitations)
