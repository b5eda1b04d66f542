"""Deploys runs in which a host or a link becomes slow, watches them, and counts iterations until it is named.

``python -m benchmarks.watching [--write]``, as root: hosts are namespaces of this machine.
"""

from __future__ import annotations

import json
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

import click
import numpy as np
import yaml

from benchmarks import written
from benchmarks.diagnosis.onsets import iteration_at
from e2c_dl.archive.read import open_archive
from e2c_dl.trace.model import Phase, Trace

MOST_ITERATIONS = 5
BAR = f"named within {MOST_ITERATIONS} iterations of the onset, and nobody else before: in every run"
SCENARIO = Path(__file__).resolve().parents[2] / "experiments" / "first-light"
AT_S = 20.0
FAULTS: Mapping[str, Mapping[str, Any]] = {
    "fog-1": {"slow_host": "fog-1", "factor": 3},
    "edge-2 -> fog-1": {"slow_link": {"src": "edge-2", "dst": "fog-1"}, "rate_factor": 0.25},
}
"""What is named -> what is injected, from AT_S of training on."""
PATIENCE_S = 120.0


@dataclass(frozen=True, kw_only=True)
class Watched:
    """One run, and what was said of it meanwhile."""

    slow: str
    onset: int  # the iteration of its host, or its link's sender, in which it became slow
    finished: int | None  # iterations that all had finished when it was named first; None: it never was
    others: tuple[str, ...]  # who was named beside it, or before
    iteration_s: float  # median, before the onset

    @property
    def after(self) -> int | None:
        """Iterations from the onset to its name; 0: in the one in which it became slow."""
        return None if self.finished is None else self.finished - 1 - self.onset


@click.command()
@click.option("--repeats", default=3, show_default=True, help="Runs with each fault, in turn.")
@written.options(repeats=1)
def main(*, repeats: int, write: bool) -> None:
    """`e2c-dl watch` beside runs of first light in which a host, or a link, becomes slow after 20 s."""
    done = written.in_turn(watched, [*FAULTS], table, repeats)
    click.echo(table(done))
    if write:
        values = {"runs": [asdict(one) for one in done]}
        written.write(
            "watching", title="How soon what becomes slow is named", text=table(done), values=values, repeats=repeats,
            missed=missed(done),
        )  # fmt: skip
    written.conclude(BAR, missed(done))


def missed(done: Sequence[Watched]) -> list[str]:
    """The runs in which it was named too late, or never, or another was."""
    never = [f"{one.slow}: never named" for one in done if one.after is None]
    late = [f"{one.slow}: after {one.after} iterations" for one in done if (one.after or 0) > MOST_ITERATIONS]
    return never + late + [f"{one.slow}: {', '.join(one.others)} named, too" for one in done if one.others]


def table(done: Sequence[Watched]) -> str:
    """Markdown, a row per run."""
    lines = [
        "| becomes slow | in iteration | an iteration takes | named after | others named |",
        "|---|---:|---:|---:|---|",
    ]
    for one in done:
        after = "never" if one.after is None else f"{one.after} iterations"
        others = ", ".join(one.others) or "nobody"
        lines.append(f"| {one.slow} | {one.onset} | {one.iteration_s * 1e3:.0f} ms | {after} | {others} |")
    return "\n".join(lines)


def watched(slow: str) -> Watched:
    """One run. Raises: ClickException with the end of what was said, if it fails."""
    with tempfile.TemporaryDirectory(prefix="watching-") as made:
        folder = Path(made)
        scenario, archive = _scenario(folder / "scenario", slow), folder / "archive"
        (folder / "artifacts").mkdir()
        with _deployed(scenario, folder) as deploying:
            lines = _watched(archive, deploying)
            if deploying.wait():
                raise click.ClickException(f"{slow}: {(folder / 'said').read_text()[-2000:]}")
        trace = open_archive(archive).trace()
    named = [(line["stop"], each["element"]) for line in lines for each in line["culprits"]]
    finished = next((stop for stop, element in named if element == slow), None)
    onset, iteration_s = _onset(trace, slow.split(" -> ", maxsplit=1)[0])
    return Watched(
        slow=slow, onset=onset, finished=finished, iteration_s=iteration_s,
        others=tuple(sorted({element for _, element in named if element != slow})),
    )  # fmt: skip


def _scenario(folder: Path, slow: str) -> Path:
    """First light without what it has slow on purpose, and with the fault that makes ``slow`` so."""
    folder.mkdir()
    for name in ("layers_services.yaml", "network.yaml", "workflow.yaml", "profile.json"):
        (folder / name).write_bytes((SCENARIO / name).read_bytes())
    emulation = yaml.safe_load((SCENARIO / "emulation.yaml").read_text(encoding="utf-8"))
    emulation["injected"] = {"seed": 1, "faults": [{**FAULTS[slow], "at": f"{AT_S:g}s"}]}
    (folder / "emulation.yaml").write_text(yaml.safe_dump(emulation), encoding="utf-8")
    return folder


@contextmanager
def _deployed(scenario: Path, folder: Path) -> Iterator[subprocess.Popen[bytes]]:
    """The deployment, under way; what is left of it at the end ends as by Ctrl-C."""
    command = [sys.executable, "-m", "e2c_dl", "deploy", str(scenario), str(folder / "artifacts")]
    with (folder / "said").open("wb") as said:
        process = subprocess.Popen(
            [*command, "--on", "local", "--archive", str(folder / "archive")], stdout=said, stderr=said
        )
        try:
            yield process
        finally:
            if process.poll() is None:
                process.terminate()
                process.wait()


def _watched(archive: Path, deploying: subprocess.Popen[bytes]) -> list[dict[str, Any]]:
    """What ``e2c-dl watch --json`` says, line by line, from when the run is up to the end of its training."""
    until_s = time.monotonic() + PATIENCE_S
    while deploying.poll() is None and time.monotonic() < until_s:
        done = subprocess.run(
            [sys.executable, "-m", "e2c_dl", "watch", str(archive), "--json"],
            capture_output=True,
            text=True,
            check=False,
        )
        if not done.returncode:
            return [json.loads(line) for line in done.stdout.splitlines()]
        time.sleep(0.5)  # it is not up yet
    raise click.ClickException("the run could not be watched")


def _onset(trace: Trace, host: str) -> tuple[int, float]:
    """The iteration of ``host`` at AT_S of training, and the median of those before."""
    rank = trace.hosts.index(host)
    own, onset = trace.ranks[rank].of(Phase.ITERATION), iteration_at(trace, rank, AT_S)
    return onset, float(np.median((own["end_ns"] - own["start_ns"])[:onset])) / 1e9


if __name__ == "__main__":
    main()
