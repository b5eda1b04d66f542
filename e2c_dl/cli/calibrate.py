"""``e2c-dl calibrate``: how long a scenario's computing takes on this host, stored for simulations."""

from __future__ import annotations

import os
from pathlib import Path

import click


@click.command()
@click.argument("scenario", required=False, type=click.Path(path_type=Path))
@click.option(
    "--output", type=click.Path(path_type=Path), default=Path("profile.json"), show_default=True,
    help="The file to write.",
)  # fmt: skip
@click.option(
    "--batch-size", "batch_sizes", type=click.IntRange(min=1), multiple=True,
    help="Measure this batch size; repeatable [default: those of SCENARIO, their halves and doubles].",
)  # fmt: skip
def calibrate(scenario: Path | None, output: Path, batch_sizes: tuple[int, ...]) -> None:
    """Measure how long SCENARIO's computing takes on this host (default: what a scenario that says nothing trains)."""
    os.environ.setdefault("OMP_NUM_THREADS", "1")  # before torch is imported: one thread, as where hosts train
    from e2c_dl.atomic_write import whole
    from e2c_dl.errors import InputError
    from e2c_dl.scenario.load import load
    from e2c_dl.scenario.training import default_training

    if not output.parent.is_dir():  # said before measuring, which takes a while
        raise InputError(f"{output.parent}: no such folder; make it, or name another file with --output")
    training = default_training("allreduce") if scenario is None else load(scenario).training
    from e2c_dl.training.calibration import calibrate as measure

    profile = measure(training, batch_sizes)
    try:
        with whole(output) as place:
            place.write_text(profile.to_json())
    except OSError as error:
        raise InputError(f"{output}: cannot be written: {error.strerror}; name another file with --output") from error
    for size, times in sorted(profile.gradients.items()):
        click.echo(
            f"batch {size:>5}: data {1e3 * times.data_s:.3f} ms, forward {1e3 * times.forward_s:.3f} ms, "
            f"backward {1e3 * sum(times.backward_s):.3f} ms in {len(times.backward_s)} buckets"
        )
    click.echo(f"step {1e3 * profile.step_s:.3f} ms, evaluation {1e3 * profile.evaluate_s:.3f} ms")
    click.echo(output)
