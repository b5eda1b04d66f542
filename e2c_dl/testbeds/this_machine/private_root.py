"""A host's own root: the machine's files to read, its own to write; all that it wrote is gone with its namespaces.

::

    /sys, covered by a tmpfs of the host's own while its root is built
      root/                     what becomes /, by pivot_root
      upper/N  index/N          what is written above the machine's N-th directory: overlayfs
      fresh/N                   /tmp, /var/tmp and homes: empty, as on a machine that was just installed

As root one layer lies over /, one over each file system mounted below it. In a user namespace no layer can lie over a
directory with mounts below it: such directories, / first of all, are made anew, with layers over what is in them. Files
of others cannot be changed there either, but a layer's own directory belongs to the user: so OPENED have layers too.

In place, at the same paths: the run's directory, /dev, and, inside of what is empty else, what a worker needs (the
interpreter, this package) and the workflow names (its artifacts); what is written there is private as well. A directory
that no layer can be laid over is shown read-only, and the run says so.
"""

from __future__ import annotations

import os
import re
import shlex
import sys
from collections.abc import Collection, Iterable, Iterator
from dataclasses import dataclass
from functools import lru_cache
from pathlib import Path

import e2c_dl
from e2c_dl.testbeds.this_machine import rootless

BASE = Path("/sys")  # any directory that is there: nothing below it is needed while a root is built
ROOT = BASE / "root"
OPENED = (
    "/etc/profile.d",
    "/usr/local",
    "/usr/local/bin",
    "/usr/local/lib",
    "/usr/local/share",
    "/var/lib",
    "/var/log",
)
_TOP = Path("/")
_OF_KERNEL = frozenset(map(Path, ("/proc", "/sys", "/dev", "/run")))  # each host has its own
_PSEUDO = re.compile(
    "proc|sysfs|dev(tmpfs|pts)|cgroup2?|mqueue|tracefs|debugfs|securityfs|bpf|pstore|hugetlbfs|fusectl|configfs|"
    "binfmt_misc|autofs|nsfs|rpc_pipefs|efivarfs|selinuxfs"
)
_ODD = re.compile(r"[^\w/.@+=-]")  # in options of a mount, commas and colons mean something else
_TIMEOUT_S = 10.0
_TRY = (
    "mount -t tmpfs none /sys && mkdir /sys/lower /sys/upper /sys/index /sys/root && touch /sys/lower/tried"
    " && mount -t overlay -o lowerdir=/sys/lower,upperdir=/sys/upper,workdir=/sys/index{more} none /sys/root"
    " && rm /sys/root/tried && mkdir /sys/root/tried"
)

_BUILD = """\
if ! mount --all --fstab {layers} 2>/dev/null; then
    while read -r path; do
        if ! mountpoint -q "{root}$path"; then
            mkdir -p "{root}$path"
            mount --rbind "$path" "{root}$path"
            mount -o remount,bind,ro "{root}$path"
            echo "closed $path"
        fi
    done <{paths}
fi
"""
_ENTER = """\
cp -p --remove-destination {etc}/* {root}/etc/
mount --all --fstab {own}
mkdir {root}/.before
cd {root}
pivot_root . .before
cd /
umount --no-mtab --lazy /.before
rmdir /.before
"""


@dataclass(frozen=True, kw_only=True)
class PrivateRoot:
    """What the root of every host of a run is made of; all are paths of the machine, and of the host."""

    layers: tuple[Path, ...] = ()  # directories overlaid, outer ones first
    fresh: tuple[Path, ...] = ()  # empty directories
    seen: tuple[Path, ...] = ()  # directories overlaid inside of what is empty
    bare: tuple[Path, ...] = ()  # directories made anew, outer ones first
    links: tuple[tuple[Path, str], ...] = ()  # symbolic links in those, and where they lead
    files: tuple[Path, ...] = ()  # copied into those
    options: str = ""  # of every layer

    def texts(self, directory: Path, own: str) -> dict[str, str]:
        """File name below ``directory`` -> content; ``own`` is the fstab of what lies above all layers.

        ``root`` is what a host's init reads as shell; it prints ``closed PATH`` for what no layer can be laid over.
        """
        fresh = (
            f"{BASE}/fresh/{i} {escaped(_at(path))} none bind,X-mount.mkdir 0 0\n" for i, path in enumerate(self.fresh)
        )
        overlaid = list(enumerate((*self.layers, *self.seen)))
        first = "".join(self._layer(i, path) for i, path in overlaid[: len(self.layers)])
        then = "".join(self._layer(i, path) for i, path in overlaid[len(self.layers) :])
        return {
            "layers": first + "".join(fresh) + then,
            "paths": "".join(f"{path}\n" for _, path in overlaid),
            "root": self._script(directory),
            "own": own,
        }

    def _script(self, directory: Path) -> str:
        overlaid = [*enumerate((*self.layers, *self.seen))]
        upper = [(BASE / "upper" / str(i), path) for i, path in overlaid]
        fresh = [(BASE / "fresh" / str(i), path) for i, path in enumerate(self.fresh)]
        made = [ROOT, *(place for place, _ in [*upper, *fresh]), *(BASE / "index" / str(i) for i, _ in overlaid)]
        lines = [f"mount -t tmpfs -o mode=0755 none {BASE}", _words("mkdir", "-p", *made, *map(_at, self.bare))]
        if _TOP in self.bare:
            lines.append(_words("mount", "--bind", ROOT, ROOT))  # pivot_root takes nothing but a mount
        lines += [_words("chmod", f"--reference={path}", place) for place, path in [*upper, *fresh] if path.is_dir()]
        lines += [_words("ln", "-s", target, _at(path)) for path, target in self.links]
        for folder in dict.fromkeys(path.parent for path in self.files):
            found = [path for path in self.files if path.parent == folder]
            lines.append(_words("cp", "-dp", *found, _at(folder)) + " 2>/dev/null || :")  # unread by the host as by us
        place = {name: shlex.quote(str(directory / name)) for name in ("layers", "paths", "own", "etc")}
        return "\n".join([*lines, (_BUILD + _ENTER).format(root=ROOT, **place)])

    def _layer(self, number: int, path: Path) -> str:
        """A line of fstab; none for what cannot be written in one: it is shown read-only."""
        if _ODD.search(str(path)):
            return ""
        options = f"lowerdir={path},upperdir={BASE}/upper/{number},workdir={BASE}/index/{number}{self.options}"
        return f"none {_at(path)} overlay {options},X-mount.mkdir 0 0\n"


def of_machine(home: Path, seen: Collection[Path], *, root: bool) -> PrivateRoot:
    """The root of hosts on this machine whose user lives in ``home``; ``seen`` are directories that they need."""
    mounts = tuple(mounted(Path("/proc/self/mountinfo").read_text(encoding="utf-8", errors="surrogateescape")))
    needed = _outermost([*interpreter(), *(Path(os.path.realpath(each)) for each in seen)])
    fresh = [Path(os.path.realpath(path)) for path in ("/tmp", "/var/tmp", "/root", home)]
    # not what leads to, or is, something needed: then the machine's is seen, and written to in private all the same
    fresh = [path for path in dict.fromkeys(fresh) if path != _TOP and path.is_dir() and path not in needed]
    fresh = _outermost(fresh)
    inside = tuple(path for path in needed if _below(path, fresh))
    if root:
        layers = [_TOP, *(path for path in mounts if path.is_dir() and not _below(path, [*_OF_KERNEL, *fresh]))]
        return PrivateRoot(layers=tuple(layers), fresh=tuple(fresh), seen=inside)
    found: dict[str, list[Path]] = {"layer": [], "bare": [], "link": [], "file": []}
    for kind, path in _divided(_TOP, mounts, fresh):
        found[kind].append(path)
    layers, bare = found["layer"], found["bare"]
    opened = (Path(path) for path in OPENED if path not in map(str, [*layers, *bare]))
    layers += [path for path in opened if path.is_dir() and not path.is_symlink()]
    return PrivateRoot(
        layers=tuple(layers), fresh=tuple(fresh), seen=inside, bare=tuple(bare), files=tuple(found["file"]),
        links=tuple((path, os.readlink(path)) for path in found["link"]), options=",userxattr",
    )  # fmt: skip


@lru_cache(maxsize=1)
def problem() -> str | None:
    """Why hosts cannot have roots of their own here, in a line; None if they can. It is tried, once."""
    there = rootless.rights()
    more = "" if os.geteuid() == 0 and there else ",userxattr"
    into = () if there else (*rootless.NAMESPACES, "--")
    return rootless.refused([*into, "unshare", "--mount", "--propagation=private", "sh", "-ec", _TRY.format(more=more)])


def interpreter() -> tuple[Path, ...]:
    """Directories that hold the interpreter that runs this, and all that it imports from, by whatever links."""
    found = [sys.prefix, sys.base_prefix, str(Path(e2c_dl.__file__).parent.parent)]
    found += [place for place in sys.path if os.path.isabs(place) and "site-packages" in place]
    link = Path(sys.executable)
    while link.is_symlink():
        found.append(str(link.parent))
        link = link.parent / os.readlink(link)
    found.append(str(link.parent))
    return tuple(
        Path(os.path.normpath(path)) for path in (*found, *map(os.path.realpath, found)) if os.path.isdir(path)
    )


def mounted(mountinfo: str) -> Iterator[Path]:
    """Where file systems with ordinary files are mounted, outer ones first, as proc(5) writes them."""
    for line in mountinfo.splitlines():
        fields, _, kind = line.partition(" - ")
        path = re.sub(r"\\(\d{3})", lambda code: chr(int(code[1], 8)), fields.split()[4])
        if not _PSEUDO.fullmatch(kind.split()[0]) and path != "/" and "\n" not in path:
            yield Path(path)


def escaped(field: object) -> str:
    """``field`` as fstab(5) wants blanks."""
    return str(field).replace("\\", "\\134").replace(" ", "\\040").replace("\t", "\\011")


def _divided(folder: Path, mounts: Collection[Path], fresh: Collection[Path]) -> Iterator[tuple[str, Path]]:
    """What ``folder`` is made of where none can be laid over directories with mounts below: (kind, path), top down."""
    if folder in _OF_KERNEL or folder in fresh:
        return
    if not any(folder in mount.parents for mount in mounts):
        yield "layer", folder
        return
    yield "bare", folder
    try:
        inside = sorted(folder.iterdir())
    except OSError:  # nor could a host look into it
        return
    for path in inside:
        if path.is_symlink():
            yield "link", path
        elif path.is_dir():
            yield from _divided(path, mounts, fresh)
        elif path.is_file():
            yield "file", path


def _outermost(paths: Iterable[Path]) -> list[Path]:
    """``paths`` without those that lie in another of them."""
    some = set(paths)
    return sorted(path for path in some if not some & set(path.parents))


def _below(path: Path, folders: Iterable[Path]) -> bool:
    return any(path.is_relative_to(folder) for folder in folders)


def _at(path: Path) -> Path:
    """Where the host's ``path`` is while its root is built."""
    return ROOT / path.relative_to(_TOP)


def _words(*words: object) -> str:
    return shlex.join(map(str, words))
