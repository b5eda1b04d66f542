"""Which files are a scenario's own: what a link in its folder leads to may be anybody's, and would stand in archives.

::

    my-scenario/network.yaml                                     a regular file, or
              network.yaml -> slow/network.yaml                 a link that stays in the folder, or
              network.yaml -> ../first-light/network.yaml       one to the same file of the scenario beside it
"""

from __future__ import annotations

import os
import shutil
from pathlib import Path

from e2c_dl.errors import ScenarioError


def check_own(file: Path) -> None:
    """Does nothing. Raises: ScenarioError, if ``file``, of a scenario's folder, is a link that leads out of it."""
    folder, leads_to = Path(os.path.realpath(file.parent)), Path(os.path.realpath(file))
    beside = leads_to.name == file.name and leads_to.parent.parent == folder.parent
    if not (leads_to.is_relative_to(folder) or beside):
        remedy = "put the file itself there: what stands in a scenario is copied into every archive"
        raise ScenarioError(file.name, "", f"{file} is a link that leads out of the scenario, to {leads_to}", remedy)


def copy(source: Path, target: Path, text: str | None = None) -> None:
    """``target``, which was not there, holds what ``source`` does, or ``text``; others may read it only if they can
    read ``source``. Raises: OSError."""
    mode = source.stat().st_mode & 0o777 | 0o600
    # from its first moment on: a mode that is set later comes too late
    with os.fdopen(os.open(target, os.O_WRONLY | os.O_CREAT | os.O_EXCL, mode), "wb") as copied:
        if text is not None:
            copied.write(text.encode())
            return
        with source.open("rb") as stream:
            shutil.copyfileobj(stream, copied)
