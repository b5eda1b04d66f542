"""Parts of a vector for an all-reduce in which each rank sums one part, by the ranks' bandwidths.

::

    rank i, of n, sums p_i of V entries:   it sends V - p_i away, and its sum to n - 1 others
    it has sent after                      t_i = (V - p_i + (n - 1) p_i) / bandwidth_i
    minimise max_i t_i                     over p_i >= 0, sum p_i = V: a linear program

A slow rank has a small part, or none: then it sends its vector away and takes the sum in. Ranks without a bandwidth
(0: clients that nobody can reach) have none. With n = 2 every division takes as long, so parts are as bandwidths.

Source: Ryabinin et al., "Moshpit SGD: communication-efficient decentralized training on heterogeneous unreliable
devices", NeurIPS 2021, and hivemind, whose vectors of optimal parts the tests hold this to.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import lru_cache
from statistics import fmean

import numpy as np
import numpy.typing as npt

from e2c_dl.errors import TrainingError

Numbers = npt.NDArray[np.float64]


def divided_by_bandwidth(length: int, bandwidths: Sequence[float | None], least: int = 0) -> list[int]:
    """How many of ``length`` entries each rank sums: these add up to ``length``.

    ``bandwidths`` in any unit; None: not known, taken for the mean of those that are. Parts below ``least`` entries are
    given to the others, unless all are.

    Raises: TrainingError, if no rank has a bandwidth, or it is negative.
    """
    known = [each for each in bandwidths if each]
    if not all(each is None or each >= 0 for each in bandwidths) or (not known and None not in bandwidths):
        raise TrainingError(f"bandwidths {list(bandwidths)} divide no vector; every one is 0 or more, and one is more")
    usual = fmean(known) if known else 1.0
    shares = np.array(_shares(tuple(usual if each is None else each for each in bandwidths))) * length
    if shares.max() >= least:
        shares[shares < least] = 0
    return _whole(length, shares)


def longest(length: int, bandwidths: Sequence[float], parts: Sequence[int]) -> float:
    """When the last of the ranks that have a bandwidth has sent all."""
    others = len(parts) - 1
    return max((length - p + others * p) / each for each, p in zip(bandwidths, parts, strict=True) if each)


@lru_cache(maxsize=64)  # every rank asks for every bucket of every iteration, of the same bandwidths
def _shares(bandwidths: tuple[float, ...]) -> tuple[float, ...]:
    """The optimal parts of 1.

    A rank that is the last to have sent though it has no part decides the time, and leaves the others' parts open:
    they are then optimal among themselves.
    """
    given = np.asarray(bandwidths, dtype=np.float64)
    given = given / given.max()
    if len(given) <= 2 or (given > 0).sum() == 1:
        return tuple((given / given.sum()).tolist())
    able = given > 0
    while True:
        shares, time = _solved(given, able)
        late = able & (1 / np.where(able, given, 1) >= time * (1 - 1e-9))
        if not late.any() or not (able & ~late).any():
            return tuple(shares.tolist())
        able &= ~late


def _solved(given: Numbers, able: npt.NDArray[np.bool_]) -> tuple[Numbers, float]:
    """(shares, time) of the linear program in which those who are ``able`` have parts. Raises: TrainingError."""
    from scipy.optimize import linprog  # where it is needed: it takes long to import

    count = len(given)
    per_share = np.hstack([np.diag(np.full(count, count - 2.0)), -given[:, None]])[able]  # (n - 2) s_i - t b_i <= -1
    solved = linprog(
        np.array([0.0] * count + [1.0]), A_ub=per_share, b_ub=np.full(int(able.sum()), -1.0),
        A_eq=np.array([[1.0] * count + [0.0]]), b_eq=[1.0],
        bounds=[(0.0, 1.0 if each else 0.0) for each in able] + [(0.0, None)], method="highs",
    )  # fmt: skip
    if not solved.success:
        raise TrainingError(f"no parts for bandwidths {list(given)}: {solved.message}")
    shares = np.round(np.clip(solved.x[:count], 0.0, 1.0), 9)  # what the solver's tolerance leaves is no part
    return np.asarray(shares / shares.sum()), float(solved.x[count])


def _whole(length: int, shares: Numbers) -> list[int]:
    """Whole numbers near ``shares`` that add up to ``length``, by largest remainder; of equal ones the first."""
    quotas = shares / shares.sum() * length
    parts = np.floor(quotas + 1e-9).astype(int)
    for place in np.argsort(-(quotas - parts), kind="stable")[: length - int(parts.sum())]:
        parts[place] += 1
    return [int(each) for each in parts]
