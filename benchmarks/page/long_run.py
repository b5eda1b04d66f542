"""A long run, made up as arrays: nothing is simulated, since only the page is measured."""

from __future__ import annotations

import numpy as np

from e2c_dl.diagnosis.model import Element, ElementKind
from e2c_dl.diagnosis.shown.activity import DELIVERY, ITERATION, PIECE, Activity, Lane, Rows, Seconds
from e2c_dl.diagnosis.shown.heat import Heat

COMPUTE_S, TRANSFER_S = 0.05, 0.03
STATES_OF_ITERATION = np.array([0, 1, 2, 1, 3], dtype=np.uint8)  # compute, propagate, wait, propagate, other
SLOW_RANK = 3
NBYTES = 40_000


def long_run(ranks: int, iterations: int, seed: int = 1) -> tuple[Activity, Heat]:
    """``ranks`` on a ring: each computes, sends twice to the next, waits; rank 3 computes slower from half time on."""
    noise = np.random.default_rng(seed)
    slow = np.where((np.arange(ranks)[:, None] == SLOW_RANK) & (np.arange(iterations) > iterations // 2), 1.5, 1.0)
    compute_s = COMPUTE_S * slow * noise.uniform(0.9, 1.1, (ranks, iterations))
    length_s = compute_s.max(axis=0) + 2 * TRANSFER_S + 0.01
    start_s = np.concatenate([[0.0], np.cumsum(length_s)[:-1]])
    names = [f"host-{rank + 1}" for rank in range(ranks)]
    lanes = tuple(_lane(name, rank, start_s, length_s, compute_s[rank]) for rank, name in enumerate(names))
    elements = [Element(kind=ElementKind.HOST, src=name) for name in names]
    elements += [
        Element(kind=ElementKind.LINK, src=name, dst=names[(rank + 1) % ranks]) for rank, name in enumerate(names)
    ]
    slowdown = np.concatenate([slow, np.ones_like(slow)])
    heat = Heat(
        elements=tuple(elements), slowdown=slowdown, by_design=(True,) * len(elements),
        start_s=start_s, end_s=start_s + length_s,
    )  # fmt: skip
    return Activity(lanes=lanes, deliveries=_deliveries(start_s, compute_s)), heat


def _lane(name: str, rank: int, start_s: Seconds, length_s: Seconds, compute_s: Seconds) -> Lane:
    after = np.stack(
        [0 * compute_s, compute_s, compute_s + TRANSFER_S, length_s - TRANSFER_S, length_s - 0.005], axis=1
    )
    bounds_s = np.append((start_s[:, None] + after).ravel(), start_s[-1] + length_s[-1])
    number = np.arange(len(start_s))
    iterations = _rows(ITERATION, iteration=number, start_s=start_s, end_s=start_s + length_s)
    third_s = compute_s / 3
    pieces = [
        _rows(PIECE, phase=2 if part == 0 else 3, iteration=number, bucket=part - 1, start_s=start_s + part * third_s,
              end_s=start_s + (part + 1) * third_s)
        for part in range(3)
    ]  # fmt: skip
    codes = np.tile(STATES_OF_ITERATION, len(start_s))
    in_order = np.stack(pieces, axis=1).ravel()
    return Lane(
        host=name, rank=rank, layer="edge", bounds_s=bounds_s, codes=codes, iterations=iterations, pieces=in_order
    )


def _deliveries(start_s: Seconds, compute_s: Seconds) -> Rows:
    ranks = len(compute_s)
    made = [
        _rows(DELIVERY, src=rank, dst=(rank + 1) % ranks, iteration=np.arange(len(start_s)), bucket=half, nbytes=NBYTES,
              start_s=start_s + own + half * TRANSFER_S, end_s=start_s + own + (half + 1) * TRANSFER_S)
        for rank, own in enumerate(compute_s) for half in range(2)
    ]  # fmt: skip
    rows = np.concatenate(made)
    return rows[np.argsort(rows["start_s"], kind="stable")]


def _rows(dtype: np.dtype[np.void], **columns: object) -> Rows:
    made = np.empty(max(np.size(column) for column in columns.values()), dtype=dtype)
    for name, column in columns.items():
        made[name] = column
    return made
