"""Directories of this machine that let a container run this very interpreter with all that is installed, read-only.

::

    sys.prefix        the virtual environment          sys.base_prefix   the interpreter that it was made of
    sys.path          whatever else is imported from   links on the way from sys.executable to the program
    e2c_dl            its checkout, if it is installed from there: it need not be on sys.path

Nothing of the system's own directories is bound: a system's interpreter must be the image's, too. Whether all that is
enough, for the C library above all, is tried by starting it in a container.
"""

from __future__ import annotations

import os
import shlex
import sys
from collections.abc import Iterable
from pathlib import Path

import e2c_dl
from e2c_dl.errors import TestbedError
from e2c_dl.testbeds.docker.engine import docker

PROBE_LABEL = "e2cdl.probe"
MISSING, NO_PYTHON, NO_NET_ADMIN = 61, 62, 63  # exit codes of the probe

_SYSTEM = ("/usr", "/bin", "/sbin", "/lib", "/lib64", "/etc", "/var", "/dev", "/proc", "/sys")
_PROBE = f"""\
for each in sshd ip tc; do
    command -v $each >/dev/null || PATH=$PATH:/usr/sbin:/sbin command -v $each >/dev/null || {{
        echo $each >&2; exit {MISSING}; }}
done
ip link set dev lo txqueuelen 999 || exit {NO_NET_ADMIN}
"$@" || exit {NO_PYTHON}
"""
# nearly all load shared libraries, which an older C library may not
_IMPORTS = "import e2c_dl.drivers.live, ctypes, hashlib, numpy, sqlite3, ssl, zlib"


_OF_ITS_OWN = (
    "such as one that has a /tmp of its own or runs on another machine; keep checkout and interpreter where both "
    "see them, such as below /srv or /home"
)


def bound() -> tuple[str, ...]:
    """Directories to bind, at the same place, in an order in which none hides one before it."""
    executable = Path(sys.executable)
    links = [path.parent.parent for path in _links(executable)]  # PREFIX of PREFIX/bin/python
    wanted = [
        Path(sys.prefix),
        Path(sys.base_prefix),
        Path(sys.exec_prefix),
        *links,
        *map(Path, filter(None, sys.path)),
        Path(e2c_dl.__file__).parents[1],
    ]
    return outermost(os.path.abspath(path) for path in wanted if path.is_dir())


def outermost(paths: Iterable[str]) -> tuple[str, ...]:
    """``paths`` without those within another one, and without the system's own, in order."""
    kept: list[str] = []
    for path in sorted(set(paths)):  # sorted, a directory comes before what lies in it
        if not _of_the_system(path) and not any(path == other or path.startswith(f"{other}/") for other in kept):
            kept.append(path)
    return tuple(kept)


def mount(source: str, *, readonly: bool, target: str | None = None) -> str:
    """An argument ``--mount=...``, as docker reads it: fields of CSV."""
    fields = ["type=bind", f"source={source}", f"target={target or source}", *(["readonly"] if readonly else [])]
    return "--mount=" + ",".join(_quoted(field) for field in fields)


def probe_argv(image: str) -> list[str]:
    """docker's command line for a container that tries everything and is gone when it ends."""
    chosen = ["--rm", "--pull=never", "--network=none", "--cap-add=NET_ADMIN", f"--label={PROBE_LABEL}=1"]
    mounts = [mount(path, readonly=True) for path in bound()]
    return ["run", *chosen, *mounts, "--entrypoint=/bin/sh", image, "-c", _PROBE, "sh", sys.executable, "-c", _IMPORTS]


def problem(image: str) -> str | None:
    """Why hosts of ``image`` would not work, in a line with the remedy; None if they would."""
    try:
        docker(*probe_argv(image))
    except TestbedError as error:
        return f"image {image}: {_remedied(str(error))}"
    return None


def _remedied(said: str) -> str:
    if "GLIBC" in said:
        return (
            f"its C library is older than {sys.executable} needs; build one of this machine's own version: "
            "`sudo e2c-dl image build --from-debootstrap`"
        )
    if "bind source path does not exist" in said:
        return f"the docker daemon does not see {said.rpartition(': ')[2]}, {_OF_ITS_OWN}"
    if f"{sys.executable}: not found" in said:
        return (
            f"in its containers there is no {sys.executable}: the daemon does not see this one, {_OF_ITS_OWN}; or the "
            "image has another C library: `sudo e2c-dl image build --from-debootstrap`"
        )
    return (
        f"{said}; `e2c-dl image build` makes one that has sshd, iproute2 and what {shlex.quote(sys.executable)} needs"
    )


def _links(path: Path) -> Iterable[Path]:
    """``path``, and each path that it leads to, link by link."""
    yield path
    while path.is_symlink():
        path = path.parent / os.readlink(path)
        yield path


def _of_the_system(path: str) -> bool:
    if path == "/usr/local" or path.startswith("/usr/local/"):  # put there by hand: no image has it
        return False
    return path == "/" or any(path == place or path.startswith(f"{place}/") for place in _SYSTEM)


def _quoted(field: str) -> str:
    # only then: a plain path stays readable in --dry-run
    return '"' + field.replace('"', '""') + '"' if set(field) & set(',"') else field
