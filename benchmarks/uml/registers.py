"""Lets User-Mode Linux run on processors with AMX, whose processes have more registers than it keeps.

User-Mode Linux 6.1 keeps 2.7 KB of extended registers for each of its processes, up to AVX-512. On processors with AMX
the host has 11 KB, insists on being given all of them, and the machine dies with its first process. A library preloaded
into it (``whole_registers.c``, compiled when it is needed) fills up what it gives back: its processes do without AMX,
and keep everything else.
"""

from __future__ import annotations

import shutil
import subprocess
from pathlib import Path

from benchmarks.uml.errors import UmlError

COMPILER = "cc"
PACKAGES = "the Debian packages gcc, libc6-dev"
SOURCE = Path(__file__).with_name("whole_registers.c")


def needed() -> bool:
    """Whether this machine's processor has AMX."""
    cpuinfo = Path("/proc/cpuinfo").read_text()
    return any("amx_tile" in line.split() for line in cpuinfo.splitlines() if line.startswith("flags"))


def missing() -> str | None:
    """Why the library cannot be made, if it is needed; None if all is there."""
    if needed() and shutil.which(COMPILER) is None:
        return f"this processor has AMX, which User-Mode Linux does not know: install {PACKAGES}"
    return None


def made(directory: Path) -> Path:
    """The library, compiled into ``directory``. Raises: UmlError with what the compiler said."""
    library = directory / "registers.so"
    argv = [COMPILER, "-O2", "-shared", "-fPIC", "-o", str(library), str(SOURCE), "-ldl"]
    done = subprocess.run(argv, capture_output=True, text=True, check=False)
    if done.returncode:
        said = " ".join(done.stderr.split())[:500]
        raise UmlError(f"{SOURCE.name} cannot be compiled: {said}; are {PACKAGES} installed?")
    return library
