"""A migration as a whole: every file read and changed in memory first, then the new folder put in place in one step.

::

    OLD  ->  .NEW.PID.new  ->  NEW          what is not understood is told before anything is written

Files that need no change, and those that are not E2Clab's, are copied byte for byte.
"""

from __future__ import annotations

import os
import shutil
from pathlib import Path

from e2c_dl.errors import InputError, ScenarioError
from e2c_dl.migration.layers import migrate_layers
from e2c_dl.migration.model import Asked, Kind, Said
from e2c_dl.migration.network import migrate_network
from e2c_dl.migration.services import rename_services
from e2c_dl.migration.text import Source
from e2c_dl.migration.workflow import migrate_workflow
from e2c_dl.scenario.documents.document import read
from e2c_dl.scenario.load import LAYERS_SERVICES, NETWORK, WORKFLOW

_MOST_FILES = 2000
"""In a scenario's folder: where there are more, data or archives lie in it, too."""

_NO_NETWORK = Said(
    kind=Kind.CHANGED, file=NETWORK, line=1, what="added, without a rule",
    why="E2Clab asks for the file; without it no link was limited",
)  # fmt: skip


def migrate(old: Path, new: Path, asked: Asked) -> tuple[Said, ...]:
    """Writes the scenario in the folder ``old``, as of today, to the new folder ``new``; all that is told of it.

    Raises: ScenarioError, for a file that is not understood; InputError, if ``new`` is there or cannot be written.
    """
    if os.path.lexists(new):
        raise InputError(f"{new} is there already and is not overwritten; name a new folder")
    if new.resolve().is_relative_to(old.resolve()):
        raise InputError(f"{new} lies in {old}; name a folder outside of it")
    if not old.is_dir():
        raise ScenarioError(str(old), "", "is not a folder", f"name one with {LAYERS_SERVICES} in it")
    texts, said = _migrated(old, asked)
    files, skipped = _files(old)
    fresh = new.with_name(f".{new.name}.{os.getpid()}.new")
    try:
        fresh.mkdir(parents=True)
        for file in files:
            target = fresh / file.relative_to(old)
            target.parent.mkdir(parents=True, exist_ok=True)
            shutil.copyfile(file, target)
            shutil.copymode(file, target)
        for name, text in texts.items():
            (fresh / name).write_bytes(text.encode())
        fresh.rename(new)
    except OSError as error:
        raise InputError(f"{new} cannot be written: {error.strerror}; name another folder") from error
    finally:
        shutil.rmtree(fresh, ignore_errors=True)
    return (*said, *skipped)


def _migrated(old: Path, asked: Asked) -> tuple[dict[str, str], list[Said]]:
    """(file name -> new text, what is told). Raises: ScenarioError, the first of what is not understood."""
    layers, workflow = _source(old / LAYERS_SERVICES), _source(old / WORKFLOW)
    network = _source(old / NETWORK) if os.path.lexists(old / NETWORK) else None
    said, hosts = migrate_layers(layers, asked)
    said += rename_services(layers, asked.services)
    if network is None:
        said.append(_NO_NETWORK)
    else:
        said += migrate_network(network, hosts, asked)
    said += migrate_workflow(workflow, asked)
    texts = {NETWORK: "networks:\n"} if network is None else {NETWORK: network.changed()}
    return {LAYERS_SERVICES: layers.changed(), **texts, WORKFLOW: workflow.changed()}, said


def _source(file: Path) -> Source:
    read(file)  # as strict as for every scenario: a key that stands twice, an anchor in itself, a file that is no text
    return Source.of(file.name, file.read_bytes().decode("utf-8"))


def _files(old: Path) -> tuple[list[Path], list[Said]]:
    """(the plain files below ``old``, what is told of links and others, which are left out)."""
    found, skipped = [], []
    for place, folders, names in os.walk(old):
        for name in sorted((*names, *(each for each in folders if Path(place, each).is_symlink()))):
            path = Path(place, name)
            if path.is_symlink() or not path.is_file():
                where = str(path.relative_to(old))
                why = "it is a link or no plain file, which a scenario does not bring along"
                skipped.append(Said(kind=Kind.NOTE, file=where, line=1, what="left out", why=why))
            else:
                found.append(path)
        if len(found) > _MOST_FILES:
            remedy = "move data and earlier results out of the folder first"
            raise ScenarioError(str(old), "", f"holds more than {_MOST_FILES} files", remedy)
    return found, skipped
