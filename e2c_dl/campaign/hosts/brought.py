"""Files of a host's folder, brought into an archive by either way: copied where that is on this machine, else by SSH.

A host may have put anything there: links of its own are not followed, and what it packs is unpacked within bounds.
"""

from __future__ import annotations

import shutil
import subprocess
from collections.abc import Collection, Iterable
from pathlib import Path

from e2c_dl.archive.unpack import unpack
from e2c_dl.beneath import Place
from e2c_dl.errors import ArchiveError
from e2c_dl.testbeds import programs
from e2c_dl.testbeds.base import Access

NOTHING_THERE = 9
"""Status with which a host says that it has no such folder (any more): neither ssh's nor tar's."""

_PACK = f"""cd "$0" 2>/dev/null || exit {NOTHING_THERE}
for name; do shift; [ -f "$name" ] && set -- "$@" "./$name"; done
[ $# -gt 0 ] || exit {NOTHING_THERE}
exec tar -czf - -- "$@\""""
"""Those of some names that are there: a program of the user's may have put anything beside them, of any size."""

FETCH_S = 120.0  # of one host over SSH: what took an hour to trace is a few hundred megabytes


def copied(source: Place, target: Place, names: Iterable[str]) -> str | None:
    """The plain files ``names`` of ``source`` stand in ``target``, each whole, or as it was; why not all, else None."""
    problems = []
    for name in names:
        try:
            if (source / name).is_plain():
                with (source / name).opened() as file, (target / name).replaced() as copy:
                    shutil.copyfileobj(file, copy)
        except (ArchiveError, OSError) as error:
            problems.append(f"{name}: {error.strerror if isinstance(error, OSError) else error}")
    return "; ".join(problems) or None


def fetched(access: Access, folder: str, into: Path, names: Collection[str]) -> str | None:
    """The files ``names`` that ``folder`` on a host has stand in ``into``; why not all, else None. Raises: OSError."""
    packed = into / ".packed.new"  # beside what it becomes, on the same disk; named as ``finish`` knows what is cut off
    try:
        with packed.open("wb") as file:
            done = subprocess.run(
                programs.ssh_argv(access, "sh", "-c", _PACK, folder, *names), stdin=subprocess.DEVNULL, stdout=file,
                stderr=subprocess.PIPE, timeout=FETCH_S, check=False,
            )  # fmt: skip
        if done.returncode == NOTHING_THERE:
            return None
        if done.returncode > 1:  # 1: a file grew while it was read
            return unasked(done.returncode, done.stderr.decode(errors="replace"))
        return unpack(packed, into, names).damage
    except subprocess.TimeoutExpired:
        return f"it did not answer within {FETCH_S:g} s"
    finally:
        packed.unlink(missing_ok=True)


def unasked(status: int, error: str) -> str:
    """Why a command on a host that ended with ``status``, and wrote ``error``, told nothing."""
    return f"it cannot be asked over SSH: {' '.join(error.split()) or f'status {status}'}"
