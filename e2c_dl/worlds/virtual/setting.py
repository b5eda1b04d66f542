"""What all ranks of a simulation have in common, what begins with an iteration of one, and what is told of it."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import NamedTuple

from e2c_dl.worlds.allotment import Allotment
from e2c_dl.worlds.virtual.judging import Judging
from e2c_dl.worlds.virtual.links import RankPair


@dataclass(frozen=True, kw_only=True)
class SimulatedIteration:
    """How one rank stands after an iteration. ``accuracy`` is None where it was not evaluated."""

    rank: int
    iteration: int  # the one that has ended, from 0
    at_ns: int  # virtual time
    loss: float  # mean over this rank's batch, before the step; not a number in a run of shapes alone
    accuracy: float | None


class Onset(NamedTuple):
    """What begins with an iteration of a rank."""

    links: Sequence[RankPair] = ()  # whose conditions are others from now on: they are asked for again
    killed: bool = False
    paused_s: float = 0.0  # of the rank; its links are unsteady ones


OnIteration = Callable[[int, int, int], Onset | None]
"""Told that a rank begins an iteration (from 0), and when, in ns; says what begins with it."""


@dataclass(frozen=True, kw_only=True)
class Setting:
    """What all ranks of a simulation have in common."""

    layers: Sequence[str]  # by rank
    samples: Sequence[int]  # by rank
    allotment: Allotment  # who may begin another iteration
    evaluate_every: int  # rank 0, after so many iterations, but for the last; 0: never
    seed: int
    checked: bool  # what is sent, and what a gradient is computed from, must stay as it is meanwhile
    on_progress: Callable[[SimulatedIteration], None] | None
    on_iteration: OnIteration | None = None
    judging: Judging | None = None
    on_kill: Callable[[int], None] | None = None  # told which rank was killed; what it raises ends the run
