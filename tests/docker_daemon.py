"""A docker daemon for tests: the machine's own if it answers, else one of our own that ends with the tests.

Our own keeps its images outside the checkout, in a place named after the image's version: so the image is built once.
It has no bridge and no firewall rules of its own: it must not change what else runs on this machine. Another daemon may
have left a firewall that drops what bridges forward; ours has none of it look at bridges while it runs.
"""

import fcntl
import os
import shutil
import subprocess
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from e2c_dl.errors import TestbedError
from e2c_dl.testbeds.docker import debootstrap, image
from e2c_dl.testbeds.docker.engine import docker
from e2c_dl.testbeds.docker.image import default_name, find, version_key
from e2c_dl.testbeds.this_machine import probes as machine

_QUIET = ("--bridge=none", "--iptables=false", "--ip6tables=false", "--ip-masq=false", "--ip-forward=false")
_READY_S = 60
_FILTERED = Path("/proc/sys/net/bridge/bridge-nf-call-iptables")  # not there: nothing filters what bridges forward


@contextmanager
def running() -> Iterator[str]:
    """While in it, ``DOCKER_HOST`` names a daemon that has the image; its name."""
    for program in ("dockerd", "docker"):
        if machine.program(program) is None:
            pytest.skip(f"{program} is not on this machine; run make setup-docker")
    with _daemon():
        if find(default_name()) is None:
            _build()
        yield default_name()


def _build() -> None:
    if machine.program("debootstrap") is None:
        pytest.skip("debootstrap is not on this machine; run make setup-docker")
    said: list[str] = []
    base = image.make_base(debootstrap.this_machines(), said.append)
    assert any("Base system installed" in line for line in said)
    image.build(base, default_name(), said.append, download=False)
    docker("image", "prune", "--force")


@contextmanager
def _daemon() -> Iterator[None]:
    if _answers():
        yield
        return
    cache = Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache") / "e2c-dl" / f"docker-{version_key()}"
    cache.mkdir(parents=True, exist_ok=True)
    place = Path(tempfile.mkdtemp(prefix="e2c-dockerd-", dir="/tmp"))  # a socket's path must be short
    before = os.environ.get("DOCKER_HOST")
    os.environ["DOCKER_HOST"] = f"unix://{place}/socket"
    try:
        with (cache / "lock").open("w") as lock:
            fcntl.flock(lock, fcntl.LOCK_EX)  # of two test runs side by side, one waits: the images have one daemon
            yield from _started(cache / "data", place)
    finally:
        if before is None:
            del os.environ["DOCKER_HOST"]
        else:
            os.environ["DOCKER_HOST"] = before
        shutil.rmtree(place)


def _started(data: Path, place: Path) -> Iterator[None]:
    """A daemon that has ``data``; afterwards nothing of it is left but that."""
    argv = [machine.program("dockerd") or "dockerd", "--data-root", str(data), "--exec-root", str(place / "exec")]
    argv += ["--pidfile", str(place / "pid"), "--host", os.environ["DOCKER_HOST"], "--group=root", *_QUIET]
    with (place / "log").open("w") as log:
        daemon = subprocess.Popen(
            argv, stdin=subprocess.DEVNULL, stdout=log, stderr=subprocess.STDOUT, start_new_session=True
        )
    try:
        deadline_s = time.monotonic() + _READY_S
        while not _answers():
            assert daemon.poll() is None and time.monotonic() < deadline_s, (place / "log").read_text()[-2000:]
            time.sleep(0.1)  # polling another program
        _without_remains()
        with _unfiltered():
            yield
    finally:
        daemon.terminate()
        daemon.wait(_READY_S)
        for line in Path("/proc/self/mounts").read_text().splitlines():
            if line.split()[1].startswith(f"{place}/"):
                subprocess.run(["umount", line.split()[1]], check=True)


@contextmanager
def _unfiltered() -> Iterator[None]:
    """While in it, containers of one network reach each other, whatever the firewall says of what is forwarded."""
    before = _FILTERED.read_text() if _FILTERED.exists() else None
    if before is not None:
        _FILTERED.write_text("0")
    try:
        yield
    finally:
        if before is not None:
            _FILTERED.write_text(before)


def _without_remains() -> None:
    """Take away what tests that were killed have left in the daemon's data: it makes their bridges anew."""
    containers = docker("ps", "--all", "--quiet").split()
    if containers:
        docker("rm", "--force", *containers)
    docker("network", "prune", "--force")


def _answers() -> bool:
    try:
        docker("version")
    except TestbedError:
        return False
    return True
