"""Who one is on Grid'5000: ~/.python-grid5000.yaml, the keys of SSH, and whether this machine is one of Grid'5000's.

Its client takes a file that it cannot read for no file, and goes on as nobody; here, that is refused.
"""

from __future__ import annotations

import getpass
import os
import socket
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from e2c_dl.errors import InputError, ScenarioError
from e2c_dl.scenario.documents.document import read

FILE = ".python-grid5000.yaml"
DOMAIN = "grid5000.fr"
ACCESS = "access.grid5000.fr"
TIMEOUT_S = 30.0
"""Of each call, where the file does not say otherwise; the client's own is none."""
KEYS = ("id_rsa", "id_ed25519", "id_ecdsa")
DEPLOYED_KEY = "id_rsa.pub"
"""What E2Clab hands to the nodes that it deploys."""


@dataclass(frozen=True, kw_only=True)
class Account:
    """A user of Grid'5000, seen from this machine."""

    settings: Mapping[str, Any]  # of the client: uri, username, password, verify_ssl, timeout ...
    user: str
    key: str  # private
    inside: bool  # this machine is one of Grid'5000's: nodes are reached without a way through its gate

    @property
    def jump(self) -> str | None:
        """USER@HOST through which nodes are reached; None: straight."""
        return None if self.inside else f"{self.user}@{ACCESS}"

    @property
    def password(self) -> bytes:
        """Empty where none is needed."""
        return str(self.settings.get("password") or "").encode()


def load(home: Path | None = None, *, deploys: bool = False) -> Account:
    """The account of this process's user. ``deploys``: nodes are installed anew, so that they need his public key.

    Raises: InputError: what is missing or wrong, with what to write.
    """
    home = home or Path.home()
    inside = socket.getfqdn().endswith(DOMAIN)
    settings = _settings(home / FILE, inside=inside)
    user = settings.get("username") or getpass.getuser()
    folder = home / ".ssh"
    if deploys and not (folder / DEPLOYED_KEY).is_file():
        raise InputError(
            f"{folder / DEPLOYED_KEY}: not there, and E2Clab hands it to the nodes that env_name deploys; "
            "ssh-keygen -t rsa, and add it to your account at api.grid5000.fr"
        )
    names = KEYS[:1] if deploys else KEYS
    key = next((folder / name for name in names if (folder / name).is_file()), None)
    if key is None:
        raise InputError(f"{folder}: no private key ({', '.join(names)}); put there the one of your Grid'5000 account")
    return Account(settings={"timeout": TIMEOUT_S, **settings}, user=str(user), key=str(key), inside=inside)


def _settings(file: Path, *, inside: bool) -> dict[str, Any]:
    """What ``file`` says. Raises: InputError: it is not there where it is needed, or wrong."""
    if not os.path.lexists(file):
        if inside:  # front ends know who asks
            return {}
        raise InputError(f"{file}: not there; write your Grid'5000 account into it: username: and password:, mode 0600")
    try:
        said = read(file).value
    except ScenarioError as error:
        raise InputError(f"{file.parent}: {error}") from error
    if not isinstance(said, dict) or not all(isinstance(key, str) for key in said):
        raise InputError(f"{file}: no mapping; write username: and password: of your Grid'5000 account")
    needed = ("username", "password") if not inside or "username" in said else ()
    for key in needed:
        if not isinstance(said.get(key), str) or not said[key]:
            raise InputError(f"{file}: {key}: missing, or not text; write that of your Grid'5000 account, in quotes")
    timeout = said.get("timeout", TIMEOUT_S)
    if isinstance(timeout, bool) or not isinstance(timeout, (int, float)) or timeout <= 0:
        raise InputError(f"{file}: timeout: {timeout!r} is no number of seconds; write 30, or leave it out")
    return said
