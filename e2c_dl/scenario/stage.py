"""A copy of a scenario for one run, with other injected departures, or none, if asked."""

from __future__ import annotations

import os
import shutil
import stat
from pathlib import Path

import yaml

from e2c_dl.errors import InputError, ScenarioError
from e2c_dl.scenario.document import MAX_BYTES, read
from e2c_dl.scenario.load import EMULATION, FILES
from e2c_dl.scenario.recorded import FOLDER, files


def overridden(src: Path, dst: Path, seed: int | None = None, healthy: bool = False) -> None:
    """Writes a copy of the scenario in the folder ``src`` to the folder ``dst``, which is made if need be.

    Copied are the five files of a scenario, other small regular ``*.yaml`` files beside them, and what may be a trace
    in its folder ``traces``. ``seed`` replaces the seed by which departures are injected (not the one of the training),
    ``healthy`` takes all of them out; then ``emulation.yaml`` is written anew and says so.

    Raises: ScenarioError, if a seed is given and nothing is injected, or emulation.yaml cannot be read; InputError, if
    both are given, or ``dst`` is in use or cannot be written.
    """
    if seed is not None and healthy:
        raise InputError("a seed places injected departures, and healthy takes them out; ask for one of the two")
    emulation = _rewritten(src / EMULATION, seed) if seed is not None or healthy else None
    try:
        _make_empty(dst)
        for file in sorted(src.iterdir()):
            if _belongs(file):
                shutil.copyfile(file, dst / file.name)
        for trace in files(src):
            (dst / FOLDER).mkdir(exist_ok=True)
            shutil.copyfile(trace, dst / FOLDER / trace.name)
        if emulation is not None:
            (dst / EMULATION).write_text(emulation, encoding="utf-8")
    except OSError as error:
        raise InputError(f"{src} cannot be copied to {dst}: {error.strerror}; choose another folder") from error


def _rewritten(file: Path, seed: int | None) -> str | None:
    """``emulation.yaml`` with another injected seed, or without ``injected:`` if that is None.

    None if there is nothing to take out. Raises: ScenarioError.
    """
    value = read(file).value if os.path.lexists(file) else {}
    injected = value.get("injected") if isinstance(value, dict) else None
    if not isinstance(value, dict) or (seed is not None and not isinstance(injected, dict)):
        raise ScenarioError(file.name, "injected", "is missing, so a seed has nothing to place", "add it, or no seed")
    if seed is None and "injected" not in value:
        return None
    kept = {key: inner for key, inner in value.items() if key != "injected"}
    if isinstance(injected, dict) and seed is not None:
        kept["injected"] = {**injected, "seed": seed}
        how = f"seed {seed} instead of the scenario's"
    else:
        how = "everything injected taken out"
    text = yaml.safe_dump(kept, sort_keys=False)
    return f"# Written by e2c-dl from the scenario's {EMULATION}: {how}.\n{text}"


def _make_empty(folder: Path) -> None:
    folder.mkdir(parents=True, exist_ok=True)
    if any(folder.iterdir()):
        raise InputError(f"{folder} is not empty; choose another folder")


def _belongs(file: Path) -> bool:
    """Whether a file of a scenario's folder is part of the scenario."""
    if file.name in FILES:
        return True
    entry = file.lstat()
    return file.suffix == ".yaml" and stat.S_ISREG(entry.st_mode) and entry.st_size <= MAX_BYTES
