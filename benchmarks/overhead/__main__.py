"""Trains with the tracer switched on and off in turns, beside torch.profiler, and judges the difference."""

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
BAR = "at most 0.5 % (upper end of the 95 % interval); 100 us per iteration + 2 us per span; 10 kB per iteration"
DRAWS = 10_000
FRAMEWORKS = ("ddp", "horovod")
PAIR_S, ELSE_S = 4.0, 60.0  # on a calm machine: two blocks, and what a job takes besides
TOLD = (
    "model", "framework", "iteration_ms", "on", "own_us", "allowed_us", "clocks_us", "hooks_us", "threads", "bytes",
    "missing",
)  # fmt: skip
KEEPING = {"MALLOC_MMAP_THRESHOLD_": str(4 << 30), "MALLOC_TRIM_THRESHOLD_": str(8 << 30)}
"""For glibc: it keeps memory. Else each iteration asks the kernel for it anew, and takes as long as that has it."""

Blocks = Sequence[Sequence[float]]
"""Seconds of each iteration, block by block."""


@click.command()
@click.option("--model", "models", multiple=True, type=click.Choice(list(MODELS)), help="Of these alone.")
@click.option("--framework", "frameworks", multiple=True, type=click.Choice(FRAMEWORKS), help="Of these alone.")
@click.option("--pairs", default=100, show_default=True, help="Blocks of each kind, 20 iterations each.")
@click.option("--resume", is_flag=True, help="Keep what results/overhead.json has of as many pairs; measure the rest.")
@written.options(pairs=2, models=["cnn"], frameworks=["ddp"])
def main(models: tuple[str, ...], frameworks: tuple[str, ...], pairs: int, resume: bool, write: bool) -> None:
    """What tracing costs: iterations with and without it, its own CPU time, what it writes."""
    end_in_order()
    kept = _read() if resume or write else {}
    asked = [(framework, model) for framework in frameworks or FRAMEWORKS for model in models or tuple(MODELS)]
    if find_spec("horovod") is None and any(framework == "horovod" for framework, _ in asked):
        click.echo("Horovod is not installed (`e2c-dl horovod install`): not measured")
        asked = [job for job in asked if job[0] != "horovod"]
    left = [job for job in asked if not (resume and kept.get(job, {}).get("pairs") == pairs)]
    minutes = math.ceil(len(left) * (pairs * PAIR_S + ELSE_S) / 60)
    click.echo(f"{len(left)} of {len(asked)} jobs to measure, about {minutes} min")
    for number, (framework, model) in enumerate(left):
        row = judged(model, framework, run(model, framework, pairs, seed=number)) | {"pairs": pairs}
        kept[framework, model] = row
        click.echo(json.dumps({name: row[name] for name in TOLD}))
        if write:
            _write(kept, pairs)
    rows = [kept[job] for job in asked]
    click.echo(table(rows))
    written.conclude(BAR, missed=[sentence for row in rows for sentence in row["missed"]])


def _read() -> dict[tuple[str, str], dict[str, Any]]:
    path = written.RESULTS / "overhead.json"
    if not path.is_file():
        return {}
    return {(row["framework"], row["model"]): row for row in json.loads(path.read_text(encoding="utf-8"))["rows"]}


def _write(kept: Mapping[tuple[str, str], Mapping[str, Any]], pairs: int) -> None:
    """After each job: who is interrupted goes on with ``--resume``."""
    rows = [kept[job] for job in sorted(kept)]
    missed = [sentence for row in rows for sentence in row["missed"]]
    written.write(
        "overhead", title="What tracing costs a script", text=table(rows), values={"rows": rows}, repeats=pairs,
        missed=missed,
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


def interval(off: Sequence[float], on: Sequence[float], more: float = 0.0, seed: int = 1) -> tuple[float, float, float]:
    """(mean, lower, upper) of how much longer iterations are with it, in percent: 95 % interval over pairs of blocks.

    ``off``, ``on``: the seconds of each block; ``more``: a share that they do not show. The mean is a trimmed one: of
    machines that others use, too, some pairs are far off, either way.
    """
    logs = np.log(np.array(on) / np.array(off) + more)
    drawn = np.random.default_rng(seed).integers(0, len(logs), (DRAWS, len(logs)))
    lower, upper = np.percentile(stats.trim_mean(logs[drawn], TRIMMED, axis=1), [2.5, 97.5])
    ends = (float(stats.trim_mean(logs, TRIMMED)), float(lower), float(upper))
    return tuple(round(100 * math.expm1(each), 3) for each in ends)


def of_blocks(seconds: Blocks) -> list[float]:
    """Seconds of each block: the lower quartile of its iterations. What disturbs one only ever makes it longer."""
    return [round(float(np.quantile(block, QUARTILE)), 6) for block in seconds]


def judged(model: str, framework: str, measured: Mapping[str, Any]) -> dict[str, Any]:
    """A row of the table, and what of the bar it misses."""
    iteration_ms = 1e3 * float(np.median(measured["seconds"]["off"]))
    seconds = {kind: of_blocks(its) for kind, its in measured["seconds"].items()}
    on = interval(seconds["off"], seconds["on"], more=measured["threads"])
    kineto = interval(seconds["without"], seconds["kineto"])
    own_us = measured["own_us"] + measured["threads"] * iteration_ms * 1e3
    allowed_us = OWN_US + SPAN_US * measured["spans"]
    where = f"{framework} {model}"
    missed = []
    if on[2] > LONGEST_PERCENT:
        missed.append(f"{where}: up to {on[2]:.2f} % longer")
    if own_us > allowed_us:
        missed.append(f"{where}: {own_us:.0f} us of its own per iteration, {allowed_us:.0f} us allowed")
    if measured["bytes"] > MOST_BYTES:
        missed.append(f"{where}: {measured['bytes']:.0f} bytes per iteration")
    if iteration_ms < SHORTEST_MS:
        missed.append(f"{where}: iterations of {iteration_ms:.0f} ms are too short to judge by")
    return {
        "model": model, "framework": framework, "iteration_ms": round(iteration_ms, 1), "on": on, "kineto": kineto,
        "own_us": round(own_us, 1), "allowed_us": round(allowed_us, 1),
        "hooks_us": {name: round(us, 1) for name, us in sorted(measured["hooks_us"].items())},
        "clocks_us": round(measured["clocks_us"], 1), "threads": round(measured["threads"], 5),
        "spans": round(measured["spans"], 1),
        "bytes": round(measured["bytes"]), "kineto_bytes": round(measured["kineto_bytes"]),
        "missing": measured["missing"], "missed": missed,
        "seconds": seconds,
    }  # fmt: skip


def table(rows: Sequence[Mapping[str, Any]]) -> str:
    """One row per job, Markdown."""
    lines = [
        "| job | iteration | traced: longer by (95 %) | torch.profiler | own CPU (allowed) | spans | bytes | Kineto |",
        "|---|---|---|---|---|---|---|---|",
    ]
    for row in rows:
        on, kineto = ("{:+.2f} % ({:+.2f} to {:+.2f})".format(*row[name]) for name in ("on", "kineto"))
        lines.append(
            f"| {row['framework']} {row['model']} | {row['iteration_ms']} ms | {on} | {kineto} "
            f"| {row['own_us']} us ({row['allowed_us']}) | {row['spans']} | {row['bytes']} | {row['kineto_bytes']} |"
        )
    return "\n".join(lines)


if __name__ == "__main__":
    main()
