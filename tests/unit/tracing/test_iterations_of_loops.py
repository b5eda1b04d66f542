"""``for item in trace.iteration(...)``: what belongs to each."""

from __future__ import annotations

import time
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path

import numpy as np
import pytest
from test_raising_scripts import attached

from e2c_dl import tracing as trace
from e2c_dl.errors import InputError
from e2c_dl.trace.model import Phase
from e2c_dl.trace.store import read_trace


def test_what_it_takes_to_make_an_item_is_of_its_iteration(tmp_path: Path) -> None:
    def slow() -> Iterator[int]:
        for number in range(3):
            time.sleep(0.05)
            yield number

    with trace.run(tmp_path / "mine"):
        for _ in range(2):
            for _ in trace.iteration(slow()):
                with trace.span("forward"):
                    pass
    (rank,) = read_trace(tmp_path / "mine").ranks
    own = rank.of(Phase.ITERATION)
    assert own["iteration"].tolist() == list(range(6)), "where nothing comes any more there is no iteration"
    assert ((own["end_ns"] - own["start_ns"]) > 0.05 * 1e9).all()


def test_numbers_that_begin_anew_are_counted_on(tmp_path: Path) -> None:
    with trace.run(tmp_path / "mine"):
        for _ in range(2):
            for number in (0, 1, 4):
                with trace.iteration(number), trace.span("forward"):
                    time.sleep(0.001)
    (rank,) = read_trace(tmp_path / "mine").ranks
    for phase in (Phase.ITERATION, Phase.FORWARD):
        assert rank.of(phase)["iteration"].tolist() == [0, 1, 4, 5, 6, 7]
    (folder,) = (tmp_path / "mine/hosts").iterdir()
    assert "began anew" in (folder / "tracing.json").read_text()


def test_numbers_that_begin_with_a_step_of_a_checkpoint_are_counted_from_0(tmp_path: Path) -> None:
    """What is analysed begins with the first, and so does warm-up."""
    with trace.run(tmp_path / "mine"):
        for number in (1000, 1001, 1002, 1004):
            with trace.iteration(number), trace.span("forward"):
                time.sleep(0.001)
    (rank,) = read_trace(tmp_path / "mine").ranks
    for phase in (Phase.ITERATION, Phase.FORWARD):
        assert rank.of(phase)["iteration"].tolist() == [0, 1, 2, 4]
    (folder,) = (tmp_path / "mine/hosts").iterdir()
    assert "begin with 1000: iterations are counted from 0" in (folder / "tracing.json").read_text()


def test_an_iteration_that_raised_may_be_had_again(tmp_path: Path) -> None:
    with trace.run(tmp_path / "mine"):
        for number in (0, 1):
            with suppress(KeyError), trace.iteration(number):
                raise KeyError
            with trace.iteration(number):
                pass
    (rank,) = read_trace(tmp_path / "mine").ranks
    assert rank.of(Phase.ITERATION)["iteration"].tolist() == [0, 1]
    (folder,) = (tmp_path / "mine/hosts").iterdir()
    assert "began anew" not in (folder / "tracing.json").read_text()


def test_numbers_may_be_those_of_numpy(tmp_path: Path) -> None:
    with trace.run(tmp_path / "mine", rank=np.int64(0), world_size=np.int32(1)):
        for number in np.arange(2):
            with trace.iteration(number), trace.span("forward"):
                time.sleep(0.001)
    (rank,) = read_trace(tmp_path / "mine").ranks
    assert rank.of(Phase.ITERATION)["iteration"].tolist() == [0, 1]
    with pytest.raises(InputError, match=r"trace.iteration\(2\) is one iteration"):
        next(iter(trace.iteration(np.int64(2))))
    with pytest.raises(InputError, match="run: rank=0.0 is no whole number"), trace.run(tmp_path, rank=0.0):  # type: ignore[arg-type]
        pass


def test_a_number_that_no_trace_holds_is_refused() -> None:
    with pytest.raises(InputError, match="number, from 0 to 1073741823"), trace.iteration(1 << 30):
        pass


BEGINS = """
import subprocess, sys, torch
from e2c_dl import tracing as trace
parameter = torch.nn.Parameter(torch.ones(2))
optimizer = torch.optim.SGD([parameter], lr=0.1)
for number in trace.iteration(range(3)):
    parameter.sum().backward()
    optimizer.step()
looks = "import sys, torch; sys.exit(any('e2c_dl' in name for name in sys.modules))"
assert subprocess.run([sys.executable, "-c", looks]).returncode == 0, "a child is watched"
"""


def test_what_a_rank_begins_is_none_where_the_rank_says_itself_where_its_iterations_end(tmp_path: Path) -> None:
    pytest.importorskip("torch")
    ((spans, _),) = attached(tmp_path, "-c", BEGINS).values()
    assert (spans["phase"] == Phase.ITERATION).sum() == 3
