"""Run a program of the machine to its end, or say in one line why it failed."""

from __future__ import annotations

import shlex
import subprocess
from collections.abc import Mapping, Sequence

from e2c_dl.errors import TestbedError


def run(argv: Sequence[str], environ: Mapping[str, str], lines: Sequence[str] = ()) -> None:
    """Run ``argv``, with ``lines`` on its standard input. Raises: TestbedError if it is missing or fails."""
    try:
        subprocess.run(
            argv,
            input="".join(f"{line}\n" for line in lines),
            env=dict(environ),
            capture_output=True,
            text=True,
            check=True,
        )
    except FileNotFoundError as error:
        raise TestbedError(f"{argv[0]}: not found on this machine; `e2c-dl doctor` names the package") from error
    except subprocess.CalledProcessError as error:
        said = "; ".join(error.stderr.strip().splitlines()[:2]) or "it said nothing"
        raise TestbedError(
            f"`{shlex.join(argv)}` failed: {said}; `e2c-dl doctor` says what this machine lacks"
        ) from error
