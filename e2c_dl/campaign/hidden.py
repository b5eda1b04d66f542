"""A scenario's copies for a run: one with its secrets, for E2Clab, out of every archive; one without them, to keep.

::

    SCENARIO --whole--> RUN/e2clab        closed to others, gone with the run; env:NAME and file:PATH are filled in
                |-----> RUN/secrets.json  what must not be told: for whoever finishes the run if this process is killed
                `-----> ARCHIVE/scenario  REDACTED in place of every secret
"""

from __future__ import annotations

import json
import os
import stat
from pathlib import Path

from e2c_dl.beneath import Place
from e2c_dl.redaction import Redactor
from e2c_dl.scenario.folder import copies
from e2c_dl.scenario.folder.secret_values import redactor_of, resolved
from e2c_dl.scenario.load import LAYERS_SERVICES, WORKFLOW_ENV
from e2c_dl.testbeds.registry import SECRETS

WORK = "e2clab"
_OWN = stat.S_IRUSR | stat.S_IWUSR


def staged(scenario: Path, kept: Path, state_dir: Path, *, seed: int | None, healthy: bool) -> Redactor:
    """Both copies of ``scenario``, the one to keep at ``kept``; what must be told nowhere.

    Raises: InputError, as ``copies.overridden``, and for a secret that is to be had from elsewhere and is not there.
    """
    work = state_dir / WORK
    copies.overridden(scenario, work, seed=seed, healthy=healthy)
    values: list[str] = []
    for file in (work / LAYERS_SERVICES, work / WORKFLOW_ENV):
        if file.is_file():
            text, given = resolved(file, os.environ)
            file.write_text(text, encoding="utf-8")
            values += given
    redactor = redactor_of(work, os.environ, values)
    with os.fdopen(os.open(state_dir / SECRETS, os.O_WRONLY | os.O_CREAT, _OWN), "w", encoding="utf-8") as file_:
        json.dump(redactor.values, file_)
    copies.overridden(scenario, kept, seed=seed, healthy=healthy, redactor=redactor)
    return redactor


def known(state_dir: Path) -> Redactor:
    """What must be told nowhere of the run whose directory is ``state_dir``, as far as that is known."""
    place = Place(state_dir) / SECRETS
    return Redactor(json.loads(place.read()) if place.is_plain() else redactor_of(state_dir / WORK, os.environ).values)
