"""One deployment of first light by one side, timed by what it says on standard error.

::

    start .. check | stage | deploy | emulate | prepare | train: "iteration 1/2"        -> seconds of each, and of all
                                                         `- then it ends by itself; its links.json is looked at

The same lines are read of both sides, so that neither is timed otherwise. They come a little late (an iteration of
0.6 s and an ssh connection), on both sides alike.
"""

from __future__ import annotations

import json
import shutil
import signal
import subprocess
import time
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import click

from benchmarks.setup.sides import Side

STEPS = ("start", "check", "stage", "deploy", "emulate", "prepare", "train")
ITERATIONS = 2
_PROGRAM = "from e2c_dl.cli.main import main; main()"
_FIRST = "iteration 1/"


@dataclass(frozen=True, kw_only=True)
class SetUp:
    """One deployment. ``seconds``: step -> until the next began; of train, until the first iteration was told."""

    side: str
    seconds: dict[str, float]
    rate_off: float  # of the link that is furthest from what was requested, as a fraction
    round_trip_off_s: float
    links: int  # that were measured
    total_s: float = field(init=False)

    def __post_init__(self) -> None:
        object.__setattr__(self, "total_s", sum(self.seconds.values()))


def deploy(side: Side, place: Path) -> SetUp:
    """Deploys in ``place``, which is made and gone again. Raises: ClickException with what it said if it fails."""
    place.mkdir()
    try:
        scenario = _shortened(side.tree / "experiments" / "first-light", place / "first-light")
        (place / "artifacts").mkdir()
        archive = place / "archive"
        seconds = _timed(side, [str(scenario), str(place / "artifacts"), "--on", "local", "--archive", str(archive)])
        content = json.loads((archive / "links.json").read_text())
        rows = [row for row in (content["rows"] if isinstance(content, dict) else content) if row["measured"]]
        return SetUp(
            side=side.name,
            seconds=seconds,
            rate_off=max(abs(row["measured"]["rate_bps"] / _requested(row)["rate_bps"] - 1) for row in rows),
            round_trip_off_s=max(abs(row["measured"]["round_trip_s"] - _requested_round_trip_s(row)) for row in rows),
            links=len(rows),
        )
    finally:
        shutil.rmtree(place)


def _shortened(experiment: Path, into: Path) -> Path:
    """The experiment with as few iterations as show the first: what is timed comes before."""
    shutil.copytree(experiment, into)
    layers = into / "layers_services.yaml"
    text = layers.read_text(encoding="utf-8")
    if "iterations: 60" not in text:
        raise click.ClickException(f"{layers}: has no 'iterations: 60' to shorten")
    layers.write_text(text.replace("iterations: 60", f"iterations: {ITERATIONS}"), encoding="utf-8")
    return into


def _timed(side: Side, arguments: list[str]) -> dict[str, float]:
    begun = time.monotonic()
    running = subprocess.Popen(
        [str(side.python), "-c", _PROGRAM, "deploy", *arguments],
        stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, text=True,
        cwd=arguments[1],
    )  # fmt: skip
    assert running.stderr is not None
    moments, said = {"start": begun}, []
    try:
        for line in running.stderr:
            said.append(line)
            step, _, what = line.partition(" ")
            step = "deploy" if step == "provision" else step  # which was a part of deploying at first
            if step in STEPS:
                moments.setdefault(step, time.monotonic())
            if step == "train" and what.lstrip().startswith(_FIRST):
                moments.setdefault("first", time.monotonic())
        status = running.wait()
    except BaseException:
        running.send_signal(signal.SIGINT)  # it releases its hosts
        running.wait()
        raise
    if status or "first" not in moments:
        raise click.ClickException(f"{side.name}: ended with status {status}: {''.join(said)[-2000:]}")
    ends = [*(moments[step] for step in STEPS[1:]), moments["first"]]
    return {step: round(end - moments[step], 3) for step, end in zip(STEPS, ends, strict=True)}


def _requested(row: dict[str, Any]) -> dict[str, Any]:
    """Called ``asked`` at first."""
    requested: dict[str, Any] = row["requested"] if "requested" in row else row["asked"]
    return requested


def _requested_round_trip_s(row: dict[str, Any]) -> float:
    return float(row["requested_round_trip_s"] if "requested_round_trip_s" in row else row["asked_round_trip_s"])
