"""Job traces in the form of Lin et al., made by hand: one step after another, each operation's beginning and length."""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq

Row = dict[str, Any]
ENDING = ("gc", "layernorm-grads-all-reduce", "embedding-grads-all-reduce", "grads-reduce-scatter",
          "optimizer-clip-main-grad", "optimizer")  # fmt: skip


def op(dp: int, stage: int, step: int, kind: str, start_s: float, length_s: float, *, stages: int, seq: int = 0) -> Row:
    """One row. Computing is of the stage's only model chunk."""
    computes = kind.endswith("compute")
    return {
        "dp_rank": dp, "stage": stage, "rank": dp * stages + stage, "step": step, "optype": kind, "seq_id": seq,
        "start_ts": start_s, "duration": length_s, "mc": 0 if computes else -1, "gmc": stage if computes else -1,
        "mb_id": seq if computes else -1,
    }  # fmt: skip


def ending(dp: int, stage: int, step: int, at_s: float, *, stages: int) -> Iterable[Row]:
    """What ends a step, all at once; every rank begins it at ``at_s``."""
    return [op(dp, stage, step, kind, at_s, 0.0, stages=stages) for kind in ENDING]


def data_parallel(forward_s: list[list[float]], backward_s: float = 2.0) -> list[Row]:
    """Steps of a job without pipeline: ``forward_s[step][dp]``."""
    rows: list[Row] = []
    for step, of_step in enumerate(forward_s):
        for dp, length_s in enumerate(of_step):
            rows.append(op(dp, 0, step, "forward-compute", 0.0, length_s, stages=1))
            rows.append(op(dp, 0, step, "backward-compute", length_s, backward_s, stages=1))
            rows += ending(dp, 0, step, max(of_step) + backward_s, stages=1)
    return rows


def pipeline(backward_s: list[float]) -> list[Row]:
    """One step of two stages; each ``backward_s[dp]`` is of the last stage. A transfer takes 0.5 s.

    ::

        stage 0   forward 1                                                  backward 1
        stage 1              0.5 | forward 2 | backward backward_s[dp] | 0.5
    """
    rows: list[Row] = []
    for dp, length_s in enumerate(backward_s):
        back_s = 3.5 + length_s  # when gradients are sent
        rows += [
            op(dp, 0, 7, "forward-compute", 0.0, 1.0, stages=2),
            op(dp, 0, 7, "forward-send", 1.0, 0.5, stages=2),
            op(dp, 1, 7, "forward-recv", 0.0, 1.5, stages=2),
            op(dp, 1, 7, "forward-compute", 1.5, 2.0, stages=2),
            op(dp, 1, 7, "backward-compute", 3.5, length_s, stages=2),
            op(dp, 1, 7, "backward-send", back_s, 0.5, stages=2),
            op(dp, 0, 7, "backward-recv", 1.0, back_s - 0.5, stages=2),
            op(dp, 0, 7, "backward-compute", back_s + 0.5, 1.0, stages=2),
        ]
        end_s = 5.0 + max(backward_s)
        rows += [*ending(dp, 0, 7, end_s, stages=2), *ending(dp, 1, 7, end_s, stages=2)]
    return rows


def written(path: Path, rows: Iterable[Row]) -> Path:
    pq.write_table(pa.Table.from_pylist(list(rows)), path)
    return path
