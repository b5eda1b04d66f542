"""Trains with the tracer switched on and off in turns, beside torch.profiler and Horovod's timeline, and judges both.

::

    job (model, framework)     run | run | ...      of some pairs of blocks each, until the interval is narrow enough:
                                                    that it is does not depend on where it lies
"""

from __future__ import annotations

import json
import math
import os
import socket
import sys
import tempfile
from collections.abc import Mapping, Sequence
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import click
import numpy as np
from scipy import stats

from benchmarks import written
from benchmarks.launched import end_in_order, launched
from benchmarks.overhead.models import MODELS

LONGEST_PERCENT, OWN_US, SPAN_US, MOST_BYTES = 0.5, 100.0, 2.0, 10_000
SHORTEST_MS = 50.0
QUARTILE = 0.25
TRIMMED = 0.2  # of the pairs, on either side
NARROW_PERCENT = LONGEST_PERCENT / 2  # half of the interval: from then on no more runs
MOST_RUNS = 5
BAR = "at most 0.5 % (upper end of the 95 % interval); 100 us per iteration + 2 us per span; 10 kB per iteration"
DRAWS = 10_000
FRAMEWORKS = ("ddp", "horovod")
PAIR_S, ELSE_S = 4.0, 90.0  # on a calm machine: two blocks, and what a job takes besides
TOLD = ("model", "framework", "pairs", "iteration_ms", "on", "own_us", "allowed_us", "bytes", "missing")
KEEPING = {"MALLOC_MMAP_THRESHOLD_": str(4 << 30), "MALLOC_TRIM_THRESHOLD_": str(8 << 30)}
"""For glibc: it keeps memory. Else each iteration asks the kernel for it anew, and takes as long as that has it."""

Blocks = Sequence[Sequence[float]]
"""Seconds of each iteration, block by block."""

Run = Mapping[str, Any]
"""Of one run: ``seconds`` of each block by kind, and figures per iteration."""

Ends = tuple[float, float, float]
"""(mean, lower end, upper end)."""


@click.command()
@click.option("--model", "models", multiple=True, type=click.Choice(list(MODELS)), help="Of these alone.")
@click.option("--framework", "frameworks", multiple=True, type=click.Choice(FRAMEWORKS), help="Of these alone.")
@click.option("--pairs", default=100, show_default=True, help="Of a run: blocks of each kind, 20 iterations each.")
@click.option("--runs", default=MOST_RUNS, show_default=True, help="Of a job at most, until its interval is narrow.")
@click.option("--resume", is_flag=True, help="Go on with the runs that results/overhead.json has of this code.")
@written.options(pairs=2, runs=1, models=["cnn"], frameworks=["ddp"])
def main(
    models: tuple[str, ...], frameworks: tuple[str, ...], pairs: int, runs: int, resume: bool, write: bool
) -> None:
    """What tracing costs: iterations with and without it, its own CPU time, what it writes."""
    end_in_order()
    found = written.unchanged("overhead") if resume or write else {}  # to write a job leaves the others as they are
    kept = {(row["framework"], row["model"]): row for row in found.get("rows", ())}
    asked = [(framework, model) for framework in frameworks or FRAMEWORKS for model in models or tuple(MODELS)]
    if find_spec("horovod") is None and any(framework == "horovod" for framework, _ in asked):
        click.echo("Horovod is not installed (`e2c-dl horovod install`): not measured")
        asked = [job for job in asked if job[0] != "horovod"]
    minutes = math.ceil((pairs * PAIR_S + ELSE_S) / 60)
    for framework, model in asked:
        row = kept.get((framework, model)) if resume else None
        while row is None or (len(row["runs"]) < runs and half_width(row) > NARROW_PERCENT):
            done = [] if row is None else row["runs"]
            click.echo(f"{framework} {model}: run {len(done) + 1} of at most {runs}, about {minutes} min")
            newest = summed_up(run(model, framework, pairs, seed=len(done)))
            row = kept[framework, model] = judged(model, framework, [*done, newest])
            click.echo(json.dumps({name: row[name] for name in TOLD}))
            if write:
                _write(kept)
    rows = [kept[job] for job in asked]
    click.echo(table(rows))
    written.conclude(BAR, missed=[sentence for row in rows for sentence in row["missed"]])


def _write(kept: Mapping[tuple[str, str], Mapping[str, Any]]) -> None:
    """After each run: who is interrupted goes on with ``--resume``."""
    rows = [kept[job] for job in sorted(kept)]
    missed = [sentence for row in rows for sentence in row["missed"]]
    written.write(
        "overhead", title="What tracing costs a script", text=table(rows), values={"rows": rows}, missed=missed,
        repeats=min(len(row["runs"]) for row in rows),
    )  # fmt: skip


def run(model: str, framework: str, pairs: int, seed: int) -> dict[str, Any]:
    """What rank 0 of two measured. Raises: ClickException if they fail."""
    with tempfile.TemporaryDirectory() as folder, socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port = str(probe.getsockname()[1])
        probe.close()
        out = Path(folder) / "out.json"
        job = ["-m", "benchmarks.overhead.job", str(out), model, framework, str(pairs), str(seed)]
        if framework == "ddp":
            launcher = ["-m", "torch.distributed.run", "--nproc-per-node", "2", "--master-port", port]
            command = [sys.executable, *launcher, *job]
        else:
            program = "from horovod.runner.launch import run_commandline; run_commandline()"
            command = [sys.executable, "-c", program, "-np", "2", "--gloo", sys.executable, *job]
        status, said = launched(command, {**os.environ, **KEEPING, "OMP_NUM_THREADS": "1", "TMPDIR": folder})
        if status or not out.exists():
            raise click.ClickException(f"{model}, {framework}: {said}")
        measured: dict[str, Any] = json.loads(out.read_text())
        return measured


def interval(runs: Sequence[Run], off: str, on: str, more: float = 0.0, seed: int = 1) -> Ends:
    """How much longer blocks ``on`` are than ``off``, in percent: 95 % interval over the pairs of all ``runs``.

    ``more``: a share that they do not show. Of a run's pairs the mean is a trimmed one: of machines that others use,
    too, some pairs are far off, either way; and runs count by how little their means vary.
    """
    draws, means, weights = [], [], []
    generator = np.random.default_rng(seed)
    for each in runs:
        logs = np.log(np.array(each["seconds"][on]) / np.array(each["seconds"][off]) + more)
        drawn = generator.integers(0, len(logs), (DRAWS, len(logs)))
        draws.append(stats.trim_mean(logs[drawn], TRIMMED, axis=1))
        means.append(stats.trim_mean(logs, TRIMMED))
        weights.append(1 / max(1e-12, float(np.var(draws[-1]))))
    lower, upper = np.percentile(np.average(draws, axis=0, weights=weights), [2.5, 97.5])
    mean, lower, upper = (
        round(100 * math.expm1(each), 3) for each in (np.average(means, weights=weights), lower, upper)
    )
    return mean, lower, upper


def half_width(row: Mapping[str, Any]) -> float:
    """Of the interval of a job, in percent: wherever that lies."""
    _, lower, upper = row["on"]
    return float(upper - lower) / 2


def of_blocks(seconds: Blocks) -> list[float]:
    """Seconds of each block: the lower quartile of its iterations. What disturbs one only ever makes it longer."""
    return [round(float(np.quantile(block, QUARTILE)), 6) for block in seconds]


def summed_up(measured: Mapping[str, Any]) -> Run:
    """What counts of what one run measured."""
    return {
        "iteration_ms": round(1e3 * float(np.median(measured["seconds"]["off"])), 1),
        "own": measured["own"], "missing": measured["missing"],
        **{name: round(measured[name]) for name in ("bytes", "kineto_bytes", "timeline_bytes") if name in measured},
        "seconds": {kind: of_blocks(its) for kind, its in measured["seconds"].items()},
    }  # fmt: skip


def judged(model: str, framework: str, runs: Sequence[Run]) -> dict[str, Any]:
    """A row of the table, and what of the bar it misses: figures are medians over ``runs``."""

    def of(name: str, its: Sequence[Mapping[str, Any]] = runs) -> float:
        return float(np.median([each[name] for each in its]))

    own = [each for one in runs for each in one["own"]]
    threads = of("threads", own)
    row: dict[str, Any] = {
        "iteration_ms": round(of("iteration_ms"), 1), "spans": round(of("spans", own), 1),
        "own_us": round(of("hooks_us", own) + threads * of("iteration_ms") * 1e3, 1),
        "bytes": round(of("bytes")), "kineto_bytes": round(of("kineto_bytes")),
    }  # fmt: skip
    on = interval(runs, "off", "on", more=threads)
    timed = [each for each in runs if "timeline" in each["seconds"]]  # Horovod's, and not of earlier results
    if timed:
        row["timeline"] = interval(timed, "untimed", "timeline")
        row["timeline_bytes"] = round(of("timeline_bytes", timed))
    allowed_us = OWN_US + SPAN_US * row["spans"]
    where = f"{framework} {model}"
    missed = []
    if on[2] > LONGEST_PERCENT:
        missed.append(f"{where}: up to {on[2]:.2f} % longer")
    if row["own_us"] > allowed_us:
        missed.append(f"{where}: {row['own_us']:.0f} us of its own per iteration, {allowed_us:.0f} us allowed")
    if row["bytes"] > MOST_BYTES:
        missed.append(f"{where}: {row['bytes']:.0f} bytes per iteration")
    if row["iteration_ms"] < SHORTEST_MS:
        missed.append(f"{where}: iterations of {row['iteration_ms']:.0f} ms are too short to judge by")
    return {
        "model": model, "framework": framework, **row, "on": on, "kineto": interval(runs, "without", "kineto"),
        "allowed_us": round(allowed_us, 1), "pairs": sum(len(each["seconds"]["on"]) for each in runs),
        "missing": sorted({sentence for each in runs for sentence in each["missing"]}), "missed": missed,
        "runs": list(runs),
    }  # fmt: skip


def table(rows: Sequence[Mapping[str, Any]]) -> str:
    """One row per job, Markdown."""
    lines = [
        "| job | pairs | iteration | traced: longer by (95 %) | torch.profiler | Horovod's timeline "
        "| own CPU (allowed) | spans | bytes | Kineto | timeline |",
        "|---|---|---|---|---|---|---|---|---|---|---|",
    ]
    for row in rows:
        on, kineto, timeline = (
            "{:+.2f} % ({:+.2f} to {:+.2f})".format(*row[name]) if name in row else "-"
            for name in ("on", "kineto", "timeline")
        )
        lines.append(
            f"| {row['framework']} {row['model']} | {row['pairs']} | {row['iteration_ms']} ms | {on} | {kineto} "
            f"| {timeline} | {row['own_us']} us ({row['allowed_us']}) | {row['spans']} | {row['bytes']} "
            f"| {row['kineto_bytes']} | {row.get('timeline_bytes', '-')} |"
        )
    return "\n".join(lines)


if __name__ == "__main__":
    main()
