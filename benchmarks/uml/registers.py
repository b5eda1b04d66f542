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

COMPILER = "cc"
SOURCE = Path(__file__).with_name("whole_registers.c")


def needed() -> bool:
    """Whether this machine's processor has AMX."""
    cpuinfo = Path("/proc/cpuinfo").read_text()
    return any("amx_tile" in line.split() for line in cpuinfo.splitlines() if line.startswith("flags"))


def missing() -> str | None:
    """Why the library cannot be made, if it is needed; None if all is there."""
    if needed() and shutil.which(COMPILER) is None:
        return "this processor has AMX, which User-Mode Linux does not know: install the Debian packages gcc, libc6-dev"
    return None


def made(directory: Path) -> Path:
    """The library, compiled into ``directory``. Raises: CalledProcessError with what the compiler said."""
    library = directory / "registers.so"
    argv = [COMPILER, "-O2", "-shared", "-fPIC", "-o", str(library), str(SOURCE), "-ldl"]
    subprocess.run(argv, check=True, capture_output=True, text=True)
    return library
