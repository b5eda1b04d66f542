"""``e2c-dl services``: our E2Clab services, for plain E2Clab."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import click

from e2c_dl.cli import options


@click.group()
def services() -> None:
    """Our E2Clab services. `e2c-dl deploy` finds them by itself; plain `e2clab deploy` needs them installed."""


@services.command("list")  # by name: a function called list would hide Python's
@options.as_json("Print them as JSON: service, file.")
def list_services(as_json: bool) -> None:
    """Name every service and its file."""
    if as_json:
        click.echo(json.dumps([{"service": path.stem, "file": str(path)} for path in _files()], indent=1))
        return
    for path in _files():
        click.echo(f"{path.stem:<12} {path}")


@services.command("install")
@click.option("--copy", is_flag=True, help="Copy the files instead of linking to them.")
@options.as_json("Print what was installed as JSON: service, file, how.")
def install(copy: bool, as_json: bool) -> None:
    """Register every service with the E2Clab of this environment (`e2clab services add`)."""
    from e2c_dl.errors import TestbedError
    from e2c_dl.testbeds.e2clab import upstream

    upstream.check()
    how = "copied" if copy else "linked"
    command = [str(Path(sys.executable).parent / "e2clab"), "services", "add"]  # not whichever PATH has first
    for path in _files():
        done = subprocess.run(
            [*command, str(path), *([] if copy else ["--link"])],  # by default it copies, and upgrades miss copies
            capture_output=True,
            text=True,
            check=False,
        )
        if done.returncode:
            said = (done.stdout + done.stderr).strip().splitlines() or ["no output"]
            raise TestbedError(f"e2clab services add {path} failed: {said[-1]}")
        if not as_json:
            click.echo(f"{path.stem} {how}")
    if as_json:
        rows = [{"service": path.stem, "file": str(path), "how": how} for path in _files()]
        click.echo(json.dumps(rows, indent=1))


def _files() -> list[Path]:
    from e2c_dl.resources import layers_services_dir

    return sorted(path for path in layers_services_dir().glob("*.py") if path.stem != "__init__")
