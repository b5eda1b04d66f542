"""The run's key: the secret by which the processes of one run know each other; ``run.key`` in the run directory.

The workflow's launch draws it and puts it on every host, mode 0600; the worker takes it from there before it does
anything else, and removes the file: so it is neither in what finalize collects, nor on a command line, nor in a log.
"""

from __future__ import annotations

import os
import stat
from pathlib import Path

from e2c_dl.drivers.live.detached import KEY
from e2c_dl.errors import InputError
from e2c_dl.worlds.live.handshake import KEY_BYTES

_MOST_BYTES = 4096  # no key is longer: another file was put there


def take(run_dir: Path) -> bytes:
    """The run's key, whose file is gone afterwards.

    Raises: InputError if there is none, others may read it, it is too short to be a secret, or cannot be removed.
    """
    path = run_dir / KEY
    try:
        descriptor = os.open(path, os.O_RDONLY | os.O_NOFOLLOW)  # a link could lead to any file
    except OSError as error:
        raise InputError(
            f"{path}: cannot be read: {error.strerror}; let the workflow's launch put the run's key there, mode 0600, "
            "as the scenario template does"
        ) from error
    with os.fdopen(descriptor, "rb") as file:
        mode = stat.S_IMODE(os.fstat(descriptor).st_mode)  # of what was opened: the path may name another file by now
        key = file.read(_MOST_BYTES).strip()
    try:
        path.unlink()  # before any check: also a key that is refused must not stay
    except OSError as error:
        raise InputError(f"{path}: cannot be removed: {error.strerror}; give the worker its directory") from error
    if mode & 0o077:
        raise InputError(f"{path}: its mode is {mode:04o}, so others may read it; draw a new key, write it with 0600")
    if len(key) < KEY_BYTES:
        raise InputError(f"{path}: holds {len(key)} bytes; draw a key of at least {KEY_BYTES} random characters")
    return key
