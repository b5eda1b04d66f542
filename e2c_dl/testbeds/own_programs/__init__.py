"""Programs of the user's own that train: what a host must have so that horovodrun and torchrun find the others."""

from __future__ import annotations

import os

DIRECTORY_VARIABLE = "E2CDL_RUN_DIR"
"""In the environment of all that a run starts on a host: its directory there, which ``destroy`` goes by."""

KEY = "ranks.key"
"""In the run's directory on the controller: the key between its hosts."""

GPU_VARIABLE = "E2CDL_GPU"
"""In the environment of a program's ranks: ``slot``, if each is to see one GPU alone, that of its slot."""

SENT_VARIABLE = "E2CDL_SENT"
"""Names of variables that the run's ssh carries to another host, with blanks between."""

IMAGE_VARIABLE = "E2CDL_IMAGE"
"""The image of the services' containers, in place of the scenario's: a name, or a file of `docker save`, NAME.tar."""

LOGINS = ("/etc/profile.d", "/usr/local/bin")
"""Where every login finds what is led there."""


def identity(path: str) -> str:
    """Which directory ``path`` is, among all of this machine; empty if it is none."""
    try:
        found = os.stat(path)
    except OSError:
        return ""
    return f"{found.st_dev}:{found.st_ino}"
