"""Scripts that raise where torch tells nobody, catch it and train on."""

from __future__ import annotations

import json
import subprocess
import sys
from collections import Counter
from pathlib import Path
from typing import Any

import pytest
from test_traced_script import ENVIRONMENT

from e2c_dl.trace.model import Phase
from e2c_dl.trace.recording.span_log import read_spans
from e2c_dl.tracing.settings import Settings

pytest.importorskip("torch")


def attached(archive: Path, *words: str) -> dict[int, tuple[Any, list[str]]]:
    """Python's ``words``, traced: rank -> its spans and limitations."""
    environment = Settings(archive=archive).environment(ENVIRONMENT)
    done = subprocess.run(
        [sys.executable, *words], env=environment, capture_output=True, text=True, check=False, timeout=200
    )
    assert done.returncode == 0, done.stderr
    found = {}
    for own in sorted((archive / "hosts").iterdir()):
        told = json.loads((own / "tracing.json").read_text())
        found[told["rank"]] = (read_spans(own / "spans.bin")[1], told["limitations"])
    return found


MODEL = """
import time, torch
from torch.optim import SGD

model = torch.nn.Linear(64, 64)
optimizer = SGD(model.parameters(), lr=0.01)
def closure():
    optimizer.zero_grad()
    loss = model(torch.ones(8, 64)).pow(2).mean()
    loss.backward()
    if next(raising) == 5:
        raise ValueError("the loss is bad")
    return loss
def interrupt():
    raise KeyboardInterrupt
"""

RAISING = f"""{MODEL}
raising = iter(range(999))
for number in range(20):
    try:
        optimizer.step(closure)
    except ValueError:
        time.sleep(0.3)

class Own(SGD):
    def step(self, closure=None):  # its super's step is hooked, too
        for _ in range(2):
            try:
                super().step(closure)
            except ValueError:
                pass
raising = iter([5, 0] * 99)
optimizer = Own(model.parameters(), lr=0.01)
for number in range(9):
    optimizer.step(closure)

handle = model.register_forward_pre_hook(lambda *_: interrupt())
try:
    model(torch.ones(8, 64))
except KeyboardInterrupt:
    handle.remove()
with torch.no_grad():
    for number in range(5):
        model(torch.ones(8, 64))
"""


def test_steps_that_raise_end_no_iteration_and_those_behind_and_around_do_and_so_with_interrupted_forwards(
    tmp_path: Path,
) -> None:
    ((spans, limitations),) = attached(tmp_path, "-c", RAISING).values()
    found = Counter(Phase(phase).name for phase in spans["phase"])
    assert [found[name] for name in ("ITERATION", "EVALUATE")] == [19 + 9, 5]
    steps = spans[spans["phase"] == Phase.STEP]
    assert (steps["end_ns"] - steps["start_ns"]).max() < 250_000_000, "what a script does behind a step is none"
    for said in ("a step of an optimizer raised", "a module's call was interrupted"):
        assert any(said in sentence for sentence in limitations)


WITHIN_SPANS = f"""{MODEL}
from e2c_dl import tracing as trace

raising = iter(range(4, 99))
for number in range(6):
    try:
        with trace.span("evaluate"):
            optimizer.step(closure)
    except ValueError:
        pass
    time.sleep(0.2)
handle = model.register_forward_pre_hook(lambda *_: interrupt())
try:
    with trace.span("data"):
        model(torch.ones(8, 64))
except KeyboardInterrupt:
    handle.remove()
for number in range(2):
    time.sleep(0.2)
    optimizer.step(closure)
"""


def test_a_span_that_a_step_or_a_forward_raised_out_of_is_over(tmp_path: Path) -> None:
    ((spans, _),) = attached(tmp_path, "-c", WITHIN_SPANS).values()
    spans = spans[spans["phase"] != Phase.TRAINING]
    iterations = spans["phase"] == Phase.ITERATION
    assert iterations.sum() == 5 + 2
    assert (spans["end_ns"] - spans["start_ns"])[~iterations].max() < 150_000_000, "what follows is no part of it"


COMPILED = """
import torch
model = torch.nn.Linear(16, 16)
optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
@torch.compile(backend="eager")
def train():
    optimizer.zero_grad()
    model(torch.ones(4, 16)).pow(2).mean().backward()
    optimizer.step()
for number in range(200):
    train()
"""


def test_a_compiled_iteration_is_never_ended_by_what_the_writing_thread_takes_meanwhile(tmp_path: Path) -> None:
    ((spans, _),) = attached(tmp_path, "-c", COMPILED).values()
    assert (spans["phase"] == Phase.ITERATION).sum() == 200
