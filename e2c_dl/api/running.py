"""Runs begun from Python: simulated in this process, deployed by the command, which may need namespaces of its own."""

from __future__ import annotations

import json
import signal
import subprocess
import sys
from pathlib import Path

from e2c_dl import errors
from e2c_dl.api.archived import ArchivedRun, load
from e2c_dl.api.frames import maker
from e2c_dl.campaign import simulated
from e2c_dl.cli.options import absolute
from e2c_dl.cli.telling.console import open_console

_PROGRAM = "from e2c_dl.cli.main import main; main()"
_RAISED: dict[int, type[errors.E2cDlError]] = {
    errors.InputError.exit_code: errors.InputError,
    errors.FidelityError.exit_code: errors.FidelityError,
    errors.Interrupted.exit_code: errors.Interrupted,
}


def simulate(
    scenario: str | Path, *, archive: str | Path | None = None, profile: str | Path | None = None,
    shapes_only: bool = False, seed: int | None = None, healthy: bool = False, quiet: bool = True,
    frames: str = "pandas",
) -> ArchivedRun:  # fmt: skip
    """The run of ``scenario`` under a virtual clock, as ``e2c-dl simulate`` makes it.

    ``quiet`` False: its steps are told on standard error. Raises: E2cDlError, of the step that failed.
    """
    maker(frames)  # now, not after hours
    request = simulated.SimulationRequest(
        scenario=Path(scenario).absolute(), archive=absolute(None if archive is None else Path(archive)),
        profile=absolute(None if profile is None else Path(profile)), shapes_only=shapes_only, seed=seed,
        healthy=healthy, command=("e2c_dl.simulate", str(scenario)),
    )  # fmt: skip
    return load(simulated.run(request, open_console(quiet=quiet)), frames=frames)


def deploy(
    scenario: str | Path, artifacts: str | Path | None = None, *, on: str = "local",
    archive: str | Path | None = None, strict: bool = False, seed: int | None = None, healthy: bool = False,
    frames: str = "pandas", **said: str,
) -> ArchivedRun:  # fmt: skip
    """The run of ``scenario`` on the testbed ``on``, as ``e2c-dl deploy`` makes it, in a process of its own.

    ``said``: more about the testbed, such as ``inventory="hosts.yaml"``. Ctrl-C ends the run in order.
    Raises: E2cDlError: InputError, FidelityError or Interrupted by its exit code; its last line says why.
    """
    maker(frames)
    argv = ["deploy", str(scenario), *([] if artifacts is None else [str(artifacts)]), "--on", on, "--json"]
    for name, value in {"archive": archive, "seed": seed, **said}.items():
        if value is not None:
            argv += [f"--{name}", str(value)]
    argv += [f"--{name}" for name, asked in (("strict", strict), ("healthy", healthy)) if asked]
    # A session of its own: Ctrl-C here reaches it once, by us, and it ends in order.
    process = subprocess.Popen(
        [sys.executable, "-c", _PROGRAM, *argv], stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True,
        start_new_session=True,
    )  # fmt: skip
    while True:
        try:
            told, complained = process.communicate()
            break
        except KeyboardInterrupt:  # the first has it end in order, later ones end what it then waits for
            process.send_signal(signal.SIGINT)
    if process.returncode:
        last = (complained.strip().splitlines() or ["it said nothing"])[-1].removeprefix("e2c-dl: ")
        raise _RAISED.get(process.returncode, errors.E2cDlError)(last)
    return load(json.loads(told)["archive"], frames=frames)
