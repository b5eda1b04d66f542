"""Calibrating each rank's mathematics with a core to itself: hosts that share a machine take turns.

::

    machine of two cores, ranks 0 1 2 3, and another machine, rank 4
    round 0   0 1 4          each on a core of its own; the others wait, computing nothing
    round 1   2 3

No rank begins before all have imported torch and built their model: that is seconds of work for whole cores, and what
is calibrated while a core is shared, or its caches are, is noise. A machine is known by its kernel's boot id, which its
namespaces and containers share; virtual machines of one computer cannot be told from several computers.
"""

from __future__ import annotations

import asyncio
import os
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import TYPE_CHECKING

from e2c_dl.archive.records import Doing, Noticed
from e2c_dl.drivers.live.control import Control

if TYPE_CHECKING:  # torch takes a second to import: that happens when all have joined
    from e2c_dl.training.compute import TorchCompute

PREPARED_WITHIN_S = 180.0  # importing torch, or calibrating, on slow, busy hosts

Tell = Callable[[Doing | Noticed], None]
"""Takes what of setting up is under way, or was found."""


async def calibrate(compute: TorchCompute, control: Control, thread: ThreadPoolExecutor, tell: Tell) -> list[float]:
    """CPU seconds of the segments of this rank's gradient, measured in its turn. Raises: Aborted."""
    where = await control.gather("imported", _place(), PREPARED_WITHIN_S)
    turns = in_turns([(str(machine), int(cores)) for machine, cores in where])
    segments_s: list[float] = []
    done = 0
    for number in range(max(turns) + 1):
        tell(Doing(what="calibrating", done=done, of=len(turns)))
        if turns[control.rank] == number:
            segments_s = list(await asyncio.get_running_loop().run_in_executor(thread, compute.calibrate))
        # A word of its own each time: ranks with larger batches take longer, which would not be foreseen.
        await control.barrier(f"calibrated-{number}", PREPARED_WITHIN_S)
        done += turns.count(number)
    return segments_s


def _place() -> tuple[str, int]:
    """This machine, and how many of its cores this process may use."""
    return Path("/proc/sys/kernel/random/boot_id").read_text().strip(), len(os.sched_getaffinity(0))


def in_turns(where: Sequence[tuple[str, int]]) -> list[int]:
    """Which turn each rank has; ``where[rank]`` is its machine, and how many cores of that it may use.

    As many ranks of a machine as it has cores are in the same turn.
    """
    seen: dict[str, int] = {}
    cores = {machine: min(usable for other, usable in where if other == machine) for machine, _ in where}
    turns = []
    for machine, _ in where:
        before = seen.get(machine, 0)
        turns.append(before // cores[machine])  # in order of rank, so that all ranks compute the same turns
        seen[machine] = before + 1
    return turns
