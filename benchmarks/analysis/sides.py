"""Both sides, each in a process of its own that stays: asked once a line, it does its work once and tells how long.

::

    diagnosis   traces/*.parquet --> Trace --> Report
    polars      traces/*.parquet --> seconds by rank and phase
"""

from __future__ import annotations

import json
import resource
import sys
import time
from collections.abc import Callable
from pathlib import Path

from benchmarks.analysis.traces import Case
from benchmarks.asked import Asked

SIDES = ("diagnosis", "polars")


def asked(side: str, case: Case) -> Asked:
    """The process of ``side``; it answers wall_s, cpu_s, peak_bytes so far, spans."""
    return Asked("benchmarks.analysis.sides", side, *case.arguments)


def _diagnosis(case: Case, folder: Path) -> int:
    from e2c_dl.diagnosis.analyse import analyse
    from e2c_dl.trace.store import read_trace

    trace = read_trace(folder)
    report = analyse(trace, case.reference(trace.hosts))
    named = [element for culprit in report.culprits for element in culprit.elements]
    assert named == case.culprits(trace.hosts), f"{case.name}: {[culprit.evidence for culprit in report.culprits]}"
    return sum(len(rank.spans) for rank in trace.ranks)


def _polars(_case: Case, folder: Path) -> int:
    import polars as pl

    from e2c_dl.trace.places import TRACES

    lasted = pl.col("end_ns") - pl.col("start_ns")
    scanned = pl.scan_parquet(folder / TRACES)
    states = scanned.group_by("rank", "phase").agg(lasted.sum().alias("ns"), pl.len()).collect()
    return int(states["len"].sum())


WORK: dict[str, Callable[[Case, Path], int]] = {"diagnosis": _diagnosis, "polars": _polars}


def main() -> None:
    """Called by :func:`asked`: the side, and what Case.of_arguments reads."""
    side, case = sys.argv[1], Case.of_arguments(*sys.argv[2:])
    folder = case.folder()
    for _ in sys.stdin:
        began_s, began_cpu_s = time.perf_counter(), time.process_time()
        spans = WORK[side](case, folder)
        wall_s, cpu_s = time.perf_counter() - began_s, time.process_time() - began_cpu_s
        peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024
        print(json.dumps({"wall_s": wall_s, "cpu_s": cpu_s, "peak_bytes": peak, "spans": spans}), flush=True)


if __name__ == "__main__":
    main()
