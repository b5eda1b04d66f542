"""What a script gives up and makes again: its group of processes, its optimizer of Horovod."""

from __future__ import annotations

import socket
import sys
from pathlib import Path

import pytest
from test_traced_script import horovodrun, run, traced

from e2c_dl.trace.model import Phase
from e2c_dl.trace.store import read_trace

pytest.importorskip("torch")

ANEW = """
import os, sys, torch, torch.distributed as dist
rank, ports = int(os.environ["RANK"]), sys.argv[1:]
parameter = torch.nn.Parameter(torch.ones(2))
optimizer = torch.optim.SGD([parameter], lr=0.1)
for attempt, port in enumerate(ports):
    dist.init_process_group("gloo", init_method=f"tcp://127.0.0.1:{port}", rank=rank, world_size=2)
    for number in range(3):
        if attempt == 0 and number == 1 and rank == 0:
            try:
                dist.all_reduce("no tensor")  # and nobody else calls it
            except TypeError:
                pass
        dist.all_reduce(torch.ones(4))
        parameter.grad = torch.ones(2)
        optimizer.step()
    dist.destroy_process_group()
"""

GIVEN_UP = """
import gc, weakref, torch, horovod.torch as hvd
hvd.init()
model = torch.nn.Sequential(torch.nn.Linear(4, 4), torch.nn.Linear(4, 2))
optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
optimizer = hvd.DistributedOptimizer(optimizer, named_parameters=model.named_parameters())
for _ in range(4):
    model(torch.ones(2, 4)).sum().backward()
    optimizer.step()
    optimizer.zero_grad()
held = [weakref.ref(parameter) for parameter in model.parameters()]
del model, optimizer
gc.collect()
print("gone", [each() is None for each in held])
"""


def free_ports(count: int) -> list[str]:
    taken = [socket.create_server(("127.0.0.1", 0)) for _ in range(count)]
    found = [str(each.getsockname()[1]) for each in taken]
    for each in taken:
        each.close()
    return found


@pytest.mark.slow
def test_ranks_that_called_unlike_many_collectives_before_are_joined_again(tmp_path: Path) -> None:
    script = tmp_path / "main.py"
    script.write_text(ANEW)
    both = " & ".join(f'RANK={rank} WORLD_SIZE=2 "$@"' for rank in range(2))
    command = ("sh", "-c", f"{both}; wait", "sh", sys.executable, str(script), *free_ports(2))
    assert traced(tmp_path / "archive", *command).returncode == 0
    one, other = (rank.of(Phase.COLLECTIVE)["seq"].tolist() for rank in read_trace(tmp_path / "archive").ranks)
    assert one[:3] != other[:3], "a call that raises has a number"
    assert one[3:] == other[3:] and len(one) == len(other) == 6


@pytest.mark.slow
def test_parameters_of_an_optimizer_of_horovods_go_with_it(tmp_path: Path) -> None:
    script = tmp_path / "main.py"
    script.write_text(GIVEN_UP)
    command = horovodrun(sys.executable, str(script))
    untraced, found = run(*command), traced(tmp_path / "archive", *command)
    assert untraced.stdout.count("gone [True, True, True, True]") == 2
    assert found.stdout.count("gone [True, True, True, True]") == 2, found.stdout + found.stderr
