"""Run a command as an ordinary user, also where this checkout and its interpreter stand in a place only root can read.

::

    unshare --mount ── what is needed, at its own path ── setpriv: the user, no capabilities ── command
                       on an empty disk that covers the closed one

Paths stay what they are, so virtual environments and links work. All of it ends with the command.
"""

from __future__ import annotations

import os
import shlex
import stat
import sys
from collections.abc import Sequence
from pathlib import Path

import e2c_dl

UID = 50_000 + os.getpid() % 10_000  # of this process's tests: others' beside it ask what of their own user is left
NAME = f"e2cdl-test-{UID}"


class OrdinaryUser:
    """A user without rights whose home is ``home``, a directory of its own under a place that all can read."""

    def __init__(self, home: Path) -> None:
        self.home = home
        home.chmod(0o755)
        (home / "passwd").write_text(
            f"{Path('/etc/passwd').read_text()}{NAME}:x:{UID}:{UID}:a test:{home}:/usr/sbin/nologin\n"
        )
        (home / "run").mkdir(mode=0o700)
        (home / "runtime").mkdir(mode=0o700)
        os.chown(home / "runtime", UID, UID)
        os.chown(home, UID, UID)

    @property
    def environ(self) -> dict[str, str]:
        """The whole of what a command gets."""
        return {
            "HOME": str(self.home),
            "USER": NAME,
            "PATH": "/usr/local/bin:/usr/bin:/bin",  # no sbin, as ordinary users have it
            "LANG": "C.UTF-8",
            "XDG_RUNTIME_DIR": str(self.home / "runtime"),
        }

    @property
    def state(self) -> Path:
        """The registry of this user's runs."""
        return self.home / "runtime" / "e2c-dl"

    def argv(self, *argv: str) -> list[str]:
        """Command line for root that runs ``argv`` as the user; without, a prefix of one.

        The process is the same from beginning to end, so signals to it reach the command.
        """
        environ = [f"{key}={value}" for key, value in self.environ.items()]
        become = ["setpriv", f"--reuid={UID}", f"--regid={UID}", "--clear-groups", "--inh-caps=-all"]
        script = "\n".join(["set -e", *_shown(self.home), 'exec "$@"'])
        prefix = ["unshare", "--mount", "--propagation=slave", "sh", "-c", script, "sh"]
        return [*prefix, "env", "-i", *environ, *become, *argv]


def _shown(home: Path) -> list[str]:
    """Shell lines that make what is needed readable, and the user known."""
    lines = [f"mount --bind {shlex.quote(str(home / 'passwd'))} /etc/passwd"]
    for closed, places in _closed(needed()).items():
        lines += covered(closed, places, home / "run")
    return lines


def covered(directory: Path, places: Sequence[Path], aside: Path) -> list[str]:
    """Shell lines that cover ``directory`` with an empty disk, ``places`` in it at their paths; ``aside`` is in use."""
    there = shlex.quote(str(aside))
    lines = [f"mount -t tmpfs -o mode=755 tmpfs {there}"]
    for i, place in enumerate(places):
        lines += [f"mkdir {there}/{i}", f"mount --rbind {shlex.quote(str(place))} {there}/{i}"]
    lines.append(f"mount -t tmpfs -o mode=755 tmpfs {shlex.quote(str(directory))}")
    for i, place in enumerate(places):
        at = shlex.quote(str(place))
        lines += [f"mkdir -p {at}", f"mount --rbind {there}/{i} {at}"]
    return [*lines, f"umount --lazy {there}"]


def needed() -> list[Path]:
    """Directories that the interpreter and this package are in, outermost ones only."""
    found = [sys.prefix, sys.base_prefix, Path(e2c_dl.__file__).parent.parent, Path(__file__).parent.parent, *sys.path]
    places = {Path(os.path.abspath(place)) for place in found if place and os.path.isdir(place)}
    places |= {place.resolve() for place in places}
    return sorted(place for place in places if not any(other in place.parents for other in places))


def _closed(places: Sequence[Path]) -> dict[Path, list[Path]]:
    """The outermost directory that others may not enter -> the places below it."""
    found: dict[Path, list[Path]] = {}
    for place in places:
        for above in reversed(place.parents):
            if not above.stat().st_mode & stat.S_IXOTH:
                found.setdefault(above, []).append(place)
                break
    return found
