"""What DistributedDataParallel is asked of its buckets: when, and what is traced where it does not answer."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
from test_raising_scripts import attached
from test_traced_script import torchrun, traced

from e2c_dl.archive.read import open_archive
from e2c_dl.trace.collectives import WORLD, collectives
from e2c_dl.trace.model import Collective, Phase
from e2c_dl.tracing.hooks.parallel import OTHER_GROUPS, SHADOWED, UNKNOWN
from e2c_dl.tracing.numbers import UNJOINED

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
    ("answers", "buckets"),
    [
        ("++", [1, 1, 2, 2, 2, 2]),
        ("+-", [1] * 6),
        pytest.param("-+", [1, 1] + [2] * 4, marks=pytest.mark.thorough),
    ],
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
        ("inner", 0), ("twice", 4), ("looked at", 4), ("together", 8),
        pytest.param("copied", 4, marks=pytest.mark.thorough),
        pytest.param("static", 4, marks=pytest.mark.thorough),
        pytest.param("no sync", 0, marks=pytest.mark.thorough),
        pytest.param("frozen", 4, marks=pytest.mark.thorough),
        pytest.param("wrapped again", 4, marks=pytest.mark.thorough),
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


HOOKED = """
import sys, torch
from torch import distributed
from torch.distributed.algorithms.ddp_comm_hooks.default_hooks import fp16_compress_hook
from torch.distributed.algorithms.ddp_comm_hooks.post_localSGD_hook import PostLocalSGDState, post_localSGD_hook
distributed.init_process_group("gloo", store=distributed.HashStore(), rank=0, world_size=1)
model = torch.nn.parallel.DistributedDataParallel(torch.nn.Linear(8, 8))
def direct(group, bucket):
    return group.allreduce([bucket.buffer()]).get_future().then(lambda done: done.value()[0])
def both(subgroup, bucket):
    distributed.all_reduce(bucket.buffer(), group=subgroup)
    return direct(distributed.group.WORLD, bucket)
way, subgroup = sys.argv[1], distributed.new_group([0])
state = PostLocalSGDState(None, subgroup, start_localSGD_iter=4, post_local_gradient_allreduce=way == "subgroup")
world = distributed.group.WORLD
hooks = {"direct": (world, direct), "compressed": (None, fp16_compress_hook), "both": (subgroup, both)}
model.register_comm_hook(*hooks.get(way, (state, post_localSGD_hook)))
optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
for number in range(8):
    with model.no_sync():
        model(torch.ones(2, 8)).sum().backward()
    model(torch.ones(2, 8)).sum().backward()
    optimizer.step()
distributed.destroy_process_group()
"""


@pytest.mark.parametrize(
    ("way", "local", "said"),
    [
        ("subgroup", 1, True), ("none", None, True), ("both", WORLD, False),
        pytest.param("direct", WORLD, False, marks=pytest.mark.thorough),
        pytest.param("compressed", WORLD, False, marks=pytest.mark.thorough),
    ],
)  # fmt: skip
def test_what_a_communication_hook_reduces_is_of_the_group_that_it_calls(
    way: str, local: int | None, said: bool, tmp_path: Path
) -> None:
    """As of torch's post-local SGD, of whose ranks those of two groups never wait for each other."""
    ((spans, limitations),) = attached(tmp_path, "-c", HOOKED, way).values()
    ours = spans[(spans["phase"] == Phase.COLLECTIVE) & (spans["bucket"] >= 0)]
    of_groups = [(WORLD, number) for number in range(4)]
    of_groups += [] if local is None else [(local, number) for number in range(4, 8)]
    assert sorted(zip(ours["peer_task"], ours["iteration"], strict=True), key=lambda each: each[1]) == of_groups
    assert (OTHER_GROUPS in limitations) == said
    every = spans[spans["phase"] == Phase.COLLECTIVE]
    numbers = list(zip(every["peer_task"].tolist(), every["seq"].tolist(), strict=True))
    assert len(set(numbers)) == len(numbers)


UNEVEN = """
import torch
from torch import distributed
distributed.init_process_group("gloo")
rank = distributed.get_rank()
layers = [torch.nn.Linear(200, 200) for _ in range(4)]
model = torch.nn.Sequential(*layers, torch.nn.BatchNorm1d(200))
model = torch.nn.parallel.DistributedDataParallel(model, bucket_cap_mb=0.2)
optimizer = torch.optim.SGD(model.parameters(), lr=0.01)
for epoch in range(3):
    with model.join():
        for number in range(1 + 4 * rank if epoch != 1 else 3 - 2 * rank):
            model(torch.ones(2, 200)).sum().backward()
            optimizer.step()
            optimizer.zero_grad()
distributed.destroy_process_group()
"""


def test_a_rank_without_inputs_takes_part_in_the_others_collectives(tmp_path: Path) -> None:
    """Also while DDP orders its buckets anew, which it tells nobody there."""
    script = tmp_path / "main.py"
    script.write_text(UNEVEN, encoding="utf-8")
    done = traced(tmp_path / "archive", *torchrun(str(script)))
    assert done.returncode == 0, done.stderr
    archive = open_archive(tmp_path / "archive")
    found = collectives(archive.trace()).parts
    of_buckets = found[found["bucket"] >= 0]
    passes = 5 + 3 + 5
    assert len(of_buckets) == 2 * (1 * 2 + 2 * (passes - 2)), "in two passes, one bucket"
    for name in ("kind", "nbytes", "bucket"):
        assert np.array_equal(found[name][::2], found[name][1::2]), name
    assert (found["kind"] == Collective.BROADCAST).sum() == 2 * passes
    assert any(SHADOWED in sentence for sentence in archive.run.limitations)
