"""A Debian or Ubuntu system as a base image, made by debootstrap: where no registry can be reached.

::

    debootstrap --> file system in memory, in a mount namespace of its own --tar--> docker import --> e2c-dl-base:SUITE

The namespaces end with the program, however that ends: no mount, file or process stays, and no half of an image. The
suite is this machine's own, so that the libraries are as new as those that its interpreter was built for; the mirror is
the one that apt uses.
"""

from __future__ import annotations

import os
import shlex
import subprocess
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from e2c_dl.errors import TestbedError
from e2c_dl.testbeds.docker.engine import SETTINGS, program
from e2c_dl.testbeds.this_machine import probes as machine
from e2c_dl.testbeds.this_machine.system_path import SYSTEM_PATH

PACKAGES = ("openssh-server", "python3", "iproute2", "iputils-ping", "fping", "procps", "netbase", "ca-certificates")
"""What the Dockerfile would install: so it has nothing to download."""

_COMPONENTS = {"ubuntu": "main,universe"}  # fping is in universe
# Of the 2 GB that the file system may have, about 300 MB are used. If nobody reads the progress any more, because who
# asked for it was killed, debootstrap fails, and nothing is imported.
_SCRIPT = """\
set -eu
docker=$1 name=$2
shift 2
mount -t tmpfs -o size=2g,mode=0755 e2cdl /mnt
"$@" /mnt/root ${MIRROR:+"$MIRROR"} >&2
cd /mnt/root
rm -rf var/cache/apt/archives/*.deb var/cache/apt/*.bin var/lib/apt/lists/* var/log/bootstrap.log
rm -f etc/hostname etc/resolv.conf etc/ssh/ssh_host_* etc/machine-id
echo "I: Importing $name" >&2
tar --one-file-system -c . | "$docker" import - "$name" >&2
"""


@dataclass(frozen=True, kw_only=True)
class Suite:
    """Which system to make."""

    distribution: str  # debian, ubuntu
    codename: str  # bookworm
    mirror: str | None  # None: debootstrap's own default

    def argv(self) -> list[str]:
        """debootstrap's command line, but for where to and from where."""
        components = _COMPONENTS.get(self.distribution, "main")
        chosen = ["--variant=minbase", f"--include={','.join(PACKAGES)}", f"--components={components}"]
        return ["debootstrap", *chosen, self.codename]


def this_machines(os_release: Path = Path("/etc/os-release")) -> Suite:
    """The suite that this machine runs. Raises: TestbedError if it is no Debian or Ubuntu."""
    told = _assignments(os_release.read_text(encoding="utf-8") if os_release.is_file() else "")
    distribution, codename = told.get("ID", ""), told.get("VERSION_CODENAME", "")
    if distribution not in ("debian", "ubuntu") or not codename:
        raise TestbedError(
            f"debootstrap: this machine is {told.get('PRETTY_NAME', 'of unknown kind')}, no Debian or Ubuntu; "
            "name a base image of a registry instead: `e2c-dl image build --from debian:stable-slim`"
        )
    # what apt has in its sources, however they are written
    chosen = ("indextargets", "--format", "$(REPO_URI) $(RELEASE) $(COMPONENT)", "Created-By: Packages")
    targets = _said("apt-get", *chosen)
    return Suite(distribution=distribution, codename=codename, mirror=mirror(targets, codename))


def mirror(index_targets: Iterable[str], codename: str) -> str | None:
    """The mirror of ``codename`` among lines ``URI RELEASE COMPONENT``; None if apt has none of it."""
    for line in index_targets:
        uri, _, rest = line.strip().partition(" ")
        # debootstrap cannot read apt's others, such as cdrom:
        # not -updates or -security: debootstrap wants the suite itself
        if rest.split() == [codename, "main"] and uri.startswith(("http://", "https://", "file:")):
            return uri.rstrip("/")
    return None


def start(suite: Suite, image: str) -> subprocess.Popen[bytes]:
    """The process that makes ``suite`` the image called ``image``; its progress comes on its standard error.

    Raises: TestbedError.
    """
    if os.geteuid() != 0:
        raise TestbedError("debootstrap: makes devices and changes roots; run as root (sudo)")
    if machine.program("debootstrap") is None:
        raise TestbedError("debootstrap: not found on this machine; apt-get install debootstrap")
    # of its own: its mounts go with it, however it ends
    apart = ("unshare", "--mount", "--pid", "--fork", "--kill-child=SIGKILL", "--propagation=private")
    return subprocess.Popen(
        [*apart, "sh", "-c", _SCRIPT, "debootstrap", program(), image, *suite.argv()],
        stdin=subprocess.DEVNULL,
        stdout=subprocess.DEVNULL,
        stderr=subprocess.PIPE,
        env=_environment(suite, apt_settings()),
        start_new_session=True,  # Ctrl-C is for this process, which then ends it
    )


def apt_settings() -> dict[str, str]:
    """How apt goes out on this machine: its proxy, as programs look for it in their environment."""
    wanted = {"http_proxy": "http::Proxy", "https_proxy": "https::Proxy", "SSL_CERT_FILE": "https::CAInfo"}
    words = [word for name, key in wanted.items() for word in (name, f"Acquire::{key}")]
    told = _assignments("\n".join(_said("apt-config", "shell", *words)))  # apt's own files are many, and nested
    return {name: value for name, value in told.items() if value and value != "DIRECT"}  # apt's word for: no proxy


def _environment(suite: Suite, settings: Mapping[str, str]) -> dict[str, str]:
    own = {"PATH": SYSTEM_PATH, "LANG": "C.UTF-8", "DEBIAN_FRONTEND": "noninteractive"}
    passed = (*SETTINGS, "HOME", "http_proxy", "https_proxy", "no_proxy", "SSL_CERT_FILE")
    inherited = {name: os.environ[name] for name in passed if name in os.environ}
    return own | inherited | dict(settings) | ({} if suite.mirror is None else {"MIRROR": suite.mirror})


def _said(*argv: str) -> Sequence[str]:
    """The lines that a program of apt's prints; none on a machine without apt."""
    if machine.program(argv[0]) is None:
        return ()
    return subprocess.run(argv, capture_output=True, text=True, check=False).stdout.splitlines()


def _assignments(text: str) -> dict[str, str]:
    """What a shell would take from lines ``NAME=value``."""
    pairs = (word.partition("=") for line in text.splitlines() for word in shlex.split(line, comments=True)[:1])
    return {name: value for name, equals, value in pairs if equals}
