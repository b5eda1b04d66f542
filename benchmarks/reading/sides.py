"""Both sides, each in a process of its own that stays: asked once a line, it does its work once and tells how long.

::

    summary     e2c_dl.trace.summary: seconds by rank and phase, and what was lost
    pandas      read_parquet of the columns that it takes, group-by rank and phase, sum
"""

from __future__ import annotations

import json
import resource
import sys
import time
from collections.abc import Callable
from pathlib import Path

from benchmarks.asked import Asked

SIDES = ("summary", "pandas")


def asked(side: str, folder: Path) -> Asked:
    """The process of ``side``; it answers wall_s, cpu_s, peak_bytes so far, seconds by rank and phase."""
    return Asked("benchmarks.reading.sides", side, str(folder))


def _summary(folder: Path) -> dict[str, float]:
    from e2c_dl.beneath import Place
    from e2c_dl.trace.summary import summarize

    return {f"{one.rank} {phase}": s for one in summarize(Place(folder))[0] for phase, s in one.phase_s.items()}


def _pandas(folder: Path) -> dict[str, float]:
    import pandas as pd

    from e2c_dl.trace.places import TRACES

    spans = pd.read_parquet(folder / TRACES, columns=["rank", "phase", "warm_up", "start_ns", "end_ns"])
    spans["s"] = (spans["end_ns"] - spans["start_ns"]) / 1e9
    sums = spans[~spans["warm_up"]].groupby(["rank", "phase"], observed=True)["s"].sum()
    return {f"{rank} {phase}": s for (rank, phase), s in sums.items() if phase != "iteration"}


WORK: dict[str, Callable[[Path], dict[str, float]]] = {"summary": _summary, "pandas": _pandas}


def main() -> None:
    """Called by :class:`Side`: side and folder are arguments."""
    side, folder = sys.argv[1], Path(sys.argv[2])
    for _ in sys.stdin:
        began_s, began_cpu_s = time.perf_counter(), time.process_time()
        seconds = WORK[side](folder)
        wall_s, cpu_s = time.perf_counter() - began_s, time.process_time() - began_cpu_s
        peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024
        answer = {"wall_s": wall_s, "cpu_s": cpu_s, "peak_bytes": peak, "seconds": seconds}
        print(json.dumps(answer), flush=True)


if __name__ == "__main__":
    main()
