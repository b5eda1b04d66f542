"""``for item in trace.iteration(...)``: what belongs to each."""

from __future__ import annotations

import time
from collections.abc import Iterator
from pathlib import Path

from e2c_dl import tracing as trace
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
