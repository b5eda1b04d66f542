"""A network and a registry of runs for each module: two modules may run side by side, and beside a user's own runs.

Otherwise a ``destroy`` that names no run would end the dead runs of others, what is compared before and after would
show their devices, and runs of two registries could choose the same network: a free one is found under a registry's
lock. Modules marked ``machine_network`` keep this machine's network, where the docker daemon and the way out are; they
are in one lane, so they take turns.
"""

from __future__ import annotations

import os
import tempfile
from collections.abc import Iterator
from pathlib import Path

import pytest
from own_network import own_network

from e2c_dl.testbeds import registry


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
            with own_network():
                yield
    os.rmdir(state)  # an error if a run is left in it
