"""Docker's command line, run to its end: what it said, or in one line why it failed and what to do.

Every argument is a word of its own: nothing that a scenario says reaches a shell. The command line rather than the
daemon's socket, because it knows contexts, DOCKER_HOST and versions, and because ``--dry-run`` can print it.
"""

from __future__ import annotations

import json
import os
import shlex
import subprocess
from collections.abc import Mapping, Sequence
from typing import Any

from e2c_dl.errors import TestbedError
from e2c_dl.testbeds.this_machine import probes as machine

SETTINGS = ("DOCKER_HOST", "DOCKER_CONTEXT", "DOCKER_CONFIG", "DOCKER_TLS_VERIFY", "DOCKER_CERT_PATH")
"""Environment variables that say which daemon is meant."""

BUILD_HINT = "make it with `e2c-dl image build` (without a registry: `sudo e2c-dl image build --from-debootstrap`)"
TIMEOUT_S = 120.0

_NO_DAEMON = ("cannot connect to the docker daemon", "is the docker daemon running", "no such host", "dial unix")
_REGISTRY = "/v2/"  # of its address: the API of daemons is /v1.41/
_NO_IMAGE = ("no such image", "unable to find image", "pull access denied")


def meant() -> dict[str, str]:
    """Which daemon the environment names, so that a later process can mean the same one."""
    return {name: os.environ[name] for name in SETTINGS if name in os.environ}


def docker(*argv: str, daemon: Mapping[str, str] | None = None) -> str:
    """Run ``docker ARGV`` and return what it said. ``daemon`` overrides SETTINGS of the environment.

    A Ctrl-C in the terminal does not reach it: what it began is finished, so that it can be found and removed.
    Raises: TestbedError.
    """
    try:
        done = subprocess.run(
            [program(), *argv],
            env=environment(daemon),
            stdin=subprocess.DEVNULL,
            capture_output=True,
            text=True,
            timeout=TIMEOUT_S,
            check=False,
            start_new_session=True,  # a Ctrl-C at the terminal would stop it half-way
        )
    except subprocess.TimeoutExpired as error:
        raise TestbedError(
            f"`{shlex.join(['docker', *argv[:2]])}` was not done after {TIMEOUT_S:g} s; see the daemon's log"
        ) from error
    if done.returncode:
        raise TestbedError(explained(argv, done.stderr or done.stdout))
    return done.stdout


def asked(*argv: str, daemon: Mapping[str, str] | None = None) -> Any:
    """What ``docker ARGV`` said, read as JSON. Raises: TestbedError."""
    return json.loads(docker(*argv, daemon=daemon))


def environment(daemon: Mapping[str, str] | None = None) -> dict[str, str]:
    """What docker's command line gets: this process's environment, with the daemon that is meant."""
    # all of SETTINGS or none: then's DOCKER_HOST with today's DOCKER_CONTEXT would be a third daemon
    own = {name: value for name, value in os.environ.items() if daemon is None or name not in SETTINGS}
    return own | dict(daemon or {})


def program() -> str:
    """Where docker's command line is. Raises: TestbedError."""
    found = machine.program("docker")
    if found is None:
        raise TestbedError("docker: not found on this machine; apt-get install docker.io")
    return found


def explained(argv: Sequence[str], said: str) -> str:
    """One line on why ``docker ARGV`` failed, from what it ``said``, with the remedy."""
    text = " ".join(said.split())
    low = text.lower()  # signs in it, no whole sentences: those change from version to version
    if "permission denied" in low and ("daemon" in low or "docker.sock" in low):
        return (
            "docker: this user may not talk to the daemon; run as root (sudo), "
            "or join its group (sudo usermod -aG docker $USER, then log in anew)"
        )
    if _REGISTRY in low and "error during connect" not in low:
        return (
            f"docker: the registry of an image does not answer ({_last(said)}); connect, or name an image that is here"
        )
    if any(sign in low for sign in _NO_DAEMON):
        return (
            "docker: no daemon answers; start it (sudo systemctl start docker, or sudo dockerd), "
            "or say which one in DOCKER_HOST"
        )
    if any(sign in low for sign in _NO_IMAGE):
        return f"docker: there is no such image ({_last(said)}); {BUILD_HINT}"
    return f"`{shlex.join(['docker', *argv[:2]])}` failed: {_last(said)}"


def _last(said: str) -> str:
    """The line that says why: the daemon's, that of docker itself ending, else the last that is no hint to a manual."""
    lines = [line.strip() for line in said.splitlines() if line.strip() and "--help" not in line]
    telling = (line for line in lines if "Error response from daemon" in line or line.startswith("fatal error: "))
    chosen = next(telling, lines[-1] if lines else "no output")
    return chosen.partition("Error response from daemon: ")[2] or chosen
