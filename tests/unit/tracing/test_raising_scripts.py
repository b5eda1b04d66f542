"""Scripts that raise where torch tells nobody, catch it and train on."""

from __future__ import annotations

import json
import subprocess
import sys
from collections import Counter
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from test_traced_script import ENVIRONMENT

from e2c_dl.trace.model import Phase
from e2c_dl.trace.recording.span_log import read_spans
from e2c_dl.tracing.hooks import optimizers
from e2c_dl.tracing.hooks.patches import Patches
from e2c_dl.tracing.session import Session
from e2c_dl.tracing.settings import Settings
from e2c_dl.tracing.tracer import Tracer

torch = pytest.importorskip("torch")


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
import time, torch, torch.multiprocessing, torch.utils.checkpoint
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
class Made(torch.utils.data.Dataset):
    def __len__(self):
        return 1
    def __getitem__(self, index):
        return model(torch.ones(64)).detach()
handle = model.register_forward_pre_hook(lambda *_: interrupt())
try:
    next(iter(torch.utils.data.DataLoader(Made())))
except KeyboardInterrupt:
    handle.remove()
time.sleep(0.2)
loss = torch.utils.checkpoint.checkpoint(model, torch.ones(8, 64), use_reentrant=False).sum()
handle = model.register_forward_pre_hook(lambda *_: interrupt())
try:
    loss.backward()
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


SPAWNED = f"""{MODEL}
def train(rank):
    global raising
    raising = iter([0, 0, 0, 0, 5])
    while True:
        optimizer.step(closure)
if __name__ == "__main__":
    try:
        torch.multiprocessing.spawn(train, nprocs=1)
    except torch.multiprocessing.ProcessRaisedException:
        pass
"""


def test_what_a_spawned_rank_raised_is_why_it_ended(tmp_path: Path) -> None:
    (tmp_path / "main.py").write_text(SPAWNED)
    ((spans, _),) = attached(tmp_path, str(tmp_path / "main.py")).values()
    assert (spans["phase"] == Phase.ITERATION).sum() == 4
    ((own,),) = [list((tmp_path / "hosts").glob("*/outcome.json"))]
    assert "ValueError: the loss is bad" in own.read_text()


THREADED = f"""{MODEL}
import io, threading

raising = iter([0] * 99)
def train(then):
    for number in range(6):
        optimizer.step(closure)
        torch.save(model.state_dict(), io.BytesIO())
    for thread in then:  # while this one is there: numbers of threads that ended are used again
        thread.start()
        thread.join()
second = threading.Thread(target=train, args=([],))
first = threading.Thread(target=train, args=([second],))
first.start()
first.join()
"""


def test_the_thread_that_trains_first_is_traced_and_that_others_train_is_said(tmp_path: Path) -> None:
    ((spans, limitations),) = attached(tmp_path, "-c", THREADED).values()
    assert [(spans["phase"] == phase).sum() for phase in (Phase.ITERATION, Phase.CHECKPOINT)] == [6, 6]
    assert any("another thread makes steps of an optimizer" in sentence for sentence in limitations)


ASKING = """
import threading, torch
data = torch.utils.data.DataLoader(torch.randn(6, 8))
model = torch.nn.Linear(8, 2)
optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
example = next(iter(data))
model(example)
def train():
    for batch in data:
        model(batch).sum().backward()
        optimizer.step()
thread = threading.Thread(target=train)
thread.start()
thread.join()
"""


def test_a_thread_that_only_asked_a_loader_and_a_model_hides_none_that_trains(tmp_path: Path) -> None:
    ((spans, _),) = attached(tmp_path, "-c", ASKING).values()
    found = Counter(Phase(phase).name for phase in spans["phase"][np.isin(spans["iteration"], range(1, 6))])
    assert [found[name] for name in ("ITERATION", "DATA", "FORWARD", "BACKWARD", "STEP")] == [5] * 5
    assert (spans["phase"] == Phase.ITERATION).sum() == 6


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


@pytest.mark.parametrize("sure", [True, False])
def test_steps_within_a_step_that_is_sure_to_end_are_a_part_of_it_and_nobody_asks_whether_it_is_under_way(
    sure: bool, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    class Around(torch.optim.SGD):  # as Horovod's is
        fails = ""

        def step(self, closure: Any = None) -> Any:
            if self.fails == "before":
                raise ArithmeticError
            super().step(closure)
            if self.fails == "behind":
                raise ArithmeticError

    tracer, patches, asked = Tracer(Settings(archive=tmp_path), {}), Patches(), []
    session = tracer.session = Session(tracer.settings)
    monkeypatch.setattr(optimizers, "under_way", lambda *_, asks=optimizers.under_way: asked.append(1) or asks(*_))
    optimizers.install(tracer, patches)
    try:
        optimizer = Around(torch.nn.Linear(2, 2).parameters(), lr=0.1)
        if sure:
            patches.wrap(Around, "step", optimizers.sure_to_end(tracer))
        for optimizer.fails in ("", "before", "", "behind", "behind", ""):
            if optimizer.fails:
                with pytest.raises(ArithmeticError):
                    optimizer.step()
            else:
                optimizer.step()
    finally:
        patches.undo()
        session.end()
    found = Counter(Phase(phase).name for phase in read_spans(session.folder / "spans.bin")[1]["phase"])
    assert found["ITERATION"] == 3
    assert optimizers.RAISED in session.said.limitations
    assert bool(asked) is not sure
