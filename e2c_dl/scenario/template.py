"""A new scenario: the commented files in ``template/`` beside this module, copied, and the schema of emulation.yaml.

An editor that knows YAML schemas finds the copy by the first line of ``emulation.yaml``, without a network.
"""

from __future__ import annotations

import os
from pathlib import Path

from e2c_dl.errors import InputError
from e2c_dl.resources import emulation_schema, template_dir


def init(dst: Path) -> tuple[Path, ...]:
    """Writes the commented scenario for newcomers to the folder ``dst`` and returns its files.

    Raises: InputError, if a file of it is there already (nothing is overwritten) or ``dst`` cannot be written.
    """
    files = [file for file in sorted(template_dir().iterdir()) if file.suffix == ".yaml"]
    files.append(emulation_schema())
    for file in files:
        if os.path.lexists(dst / file.name):
            raise InputError(f"{dst / file.name} is there already and is not overwritten; name a new folder")
    made, written = not dst.exists(), []
    try:
        dst.mkdir(parents=True, exist_ok=True)
        for file in files:
            # "x": also what appeared since the look above is not overwritten.
            with (dst / file.name).open("x", encoding="utf-8") as stream:
                written.append(dst / file.name)
                stream.write(file.read_text(encoding="utf-8"))
    except OSError as error:
        for path in written:  # half a scenario helps nobody
            path.unlink()
        if made and dst.is_dir():
            dst.rmdir()
        raise InputError(f"{dst} cannot be written: {error.strerror}; name another folder") from error
    return tuple(dst / file.name for file in files)
