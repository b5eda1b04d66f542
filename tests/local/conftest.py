"""A network and a registry of runs for each module: two modules may run side by side, and beside a user's own runs.

Otherwise a ``destroy`` that names no run would end the dead runs of others, what is compared before and after would
show their devices, and runs of two registries could choose the same network: a free one is found under a registry's
lock. Modules marked ``machine_network`` keep this machine's network, where the docker daemon and the way out are; they
are in one lane, so they take turns.
"""

from __future__ import annotations

import ctypes
import os
import subprocess
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from e2c_dl.testbeds import registry

_CLONE_NEWNET = 0x40000000
_LIBC = ctypes.CDLL(None, use_errno=True)


@pytest.fixture(scope="session", autouse=True)
def tun_for_all() -> None:
    """/dev/net/tun is everybody's, as udev leaves it on Debian: tests of ordinary users make their relay's devices."""
    tun = Path("/dev/net/tun")
    if os.geteuid() == 0 and tun.exists() and tun.stat().st_mode & 0o666 != 0o666:
        tun.chmod(0o666)


@pytest.fixture(scope="module", autouse=True)
def own_place(request: pytest.FixtureRequest) -> Iterator[None]:
    """While in it, runs are registered apart, and what is started is in a network namespace of the module's own."""
    state = tempfile.mkdtemp(prefix="e2cdl-runs-", dir="/tmp")  # a socket's path must be short
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv(registry.STATE_VARIABLE, state)
        if request.node.get_closest_marker("machine_network"):
            yield
        else:
            with _own_network():
                yield
    os.rmdir(state)  # an error if a run is left in it


@contextmanager
def _own_network() -> Iterator[None]:
    """While in it, this thread, and all that it starts, is in a network namespace that has a loopback device only."""
    with open("/proc/thread-self/ns/net", "rb") as before:
        _checked(_LIBC.unshare(_CLONE_NEWNET), "unshare")
        try:
            subprocess.run(["ip", "link", "set", "lo", "up"], check=True)
            yield
        finally:
            _checked(_LIBC.setns(before.fileno(), _CLONE_NEWNET), "setns")


def _checked(status: int, call: str) -> None:
    if status:
        raise OSError(ctypes.get_errno(), call)
