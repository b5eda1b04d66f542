"""Commands ``e2c-dl simulate | calibrate``: a whole run in the virtual world, and how long computing takes in it."""

from __future__ import annotations

import json
import os
import sys
from pathlib import Path

import click

from e2c_dl.cli import options
from e2c_dl.cli.deploy import tell
from e2c_dl.cli.telling.console import open_console
from e2c_dl.scenario.workflow import PROFILE


@click.command()
@options.SCENARIO
@options.KEPT_IN
@click.option(
    "--profile", type=options.PATH,
    help="How long hosts compute, as `calibrate` measured it [default: SCENARIO/profile.json].",
)  # fmt: skip
@click.option("--calibrate", "measure", is_flag=True, help="Measure the profile first, if there is none.")
@click.option("--shapes-only", is_flag=True, help="Train nothing: times and bytes alone. Needs no torch, and scales.")
@options.SEED
@options.HEALTHY
@options.as_json("Print the report as JSON on standard output, nothing else.")
def simulate(
    scenario: Path,
    archive: Path | None,
    profile: Path | None,
    measure: bool,
    shapes_only: bool,
    seed: int | None,
    healthy: bool,
    as_json: bool,
) -> None:
    """Run SCENARIO under a virtual clock: the same strategy, real gradients, modelled hosts and links.

    Needs no root and no testbed. Writes the archive that `deploy` writes, so `report`, `export` and `verify` read it.
    """
    options.one_of(seed=seed is not None, healthy=healthy)
    file = profile or scenario / PROFILE
    if scenario.is_dir() and not file.exists() and (measure or _offered(file)):
        _calibrated(scenario, file, (), tell_on_stderr=as_json)
    from e2c_dl.campaign.simulated import SimulationRequest, run  # here: --help need not load NumPy and what simulates

    request = SimulationRequest(
        scenario=Path(os.path.abspath(scenario)),
        archive=options.absolute(archive),
        profile=options.absolute(profile),
        shapes_only=shapes_only,
        seed=seed,
        healthy=healthy,
        command=tuple(sys.argv),
    )
    tell(run(request, open_console(quiet=as_json)), as_json)


@click.command()
@click.argument("scenario", required=False, type=options.PATH)
@click.option(
    "--output", type=options.PATH,
    help="The file to write [default: profile.json in SCENARIO, where `simulate` reads it, else here].",
)  # fmt: skip
@click.option(
    "--batch-size", "batch_sizes", type=click.IntRange(min=1), multiple=True,
    help="Measure this batch size; repeatable [default: those of SCENARIO, their halves and doubles].",
)  # fmt: skip
@options.as_json("Print as JSON: file, and profile, what stands in it.")
def calibrate(scenario: Path | None, output: Path | None, batch_sizes: tuple[int, ...], as_json: bool) -> None:
    """Measure how long SCENARIO's computing takes on this host (default: what a scenario that says nothing trains)."""
    file = output or (scenario or Path()) / PROFILE
    _calibrated(scenario, file, batch_sizes, tell_on_stderr=as_json)
    if as_json:
        click.echo(json.dumps({"file": str(file), "profile": json.loads(file.read_text())}, indent=1))


def _offered(file: Path) -> bool:
    """Whether to measure now, as somebody at a terminal says; where nobody can be asked, no."""
    if not (sys.stdin.isatty() and sys.stderr.isatty()):
        return False
    return click.confirm(f"{file} is not there: measure now how long computing takes on this host?", err=True)


def _calibrated(
    scenario: Path | None, output: Path, batch_sizes: tuple[int, ...], tell_on_stderr: bool = False
) -> None:
    """Measure, write ``output``, and say what came out. Raises: InputError, TrainingError."""
    os.environ.setdefault("OMP_NUM_THREADS", "1")  # before torch is imported: one thread, as where hosts train
    from e2c_dl.atomic_write import whole
    from e2c_dl.drivers.live.facts import this_hardware
    from e2c_dl.errors import InputError
    from e2c_dl.scenario.load import load
    from e2c_dl.scenario.training import default_training

    training = default_training("allreduce") if scenario is None else load(scenario).training
    if not output.parent.is_dir():  # said before measuring, which takes a while
        raise InputError(f"{output.parent}: no such folder; make it, or name another file with --output")
    from e2c_dl.training.calibration import calibrate as measure  # torch reads OMP_NUM_THREADS once, on import
    from e2c_dl.training.compute import torch_facts

    profile = measure(training, batch_sizes, machine=this_hardware(torch_facts()))
    try:
        with whole(output) as place:  # whole or not at all: half a profile would be read as one
            place.write_text(profile.to_json())
    except OSError as error:
        raise InputError(f"{output}: cannot be written: {error.strerror}; name another file with --output") from error
    lines = [
        f"batch {size:>5}: data {1e3 * times.data_s:.3f} ms, forward {1e3 * times.forward_s:.3f} ms, "
        f"backward {1e3 * sum(times.backward_s):.3f} ms in {len(times.backward_s)} buckets"
        for size, times in sorted(profile.gradients.items())
    ]
    lines.append(f"step {1e3 * profile.step_s:.3f} ms, evaluation {1e3 * profile.evaluate_s:.3f} ms")
    for line in (f"model {profile.model} in {profile.dtype}, on {profile.machine}", *lines, str(output)):
        click.echo(line, err=tell_on_stderr)
