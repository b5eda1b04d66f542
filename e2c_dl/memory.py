"""Memory of this machine, as its kernel tells it."""

from __future__ import annotations

from pathlib import Path

from e2c_dl.errors import TestbedError


def memory_available_bytes(meminfo: Path = Path("/proc/meminfo")) -> int:
    """Memory that programs can still get without swapping. Raises: TestbedError, if the kernel does not tell."""
    for line in meminfo.read_text(encoding="ascii").splitlines():
        if line.startswith("MemAvailable:"):
            return int(line.split()[1]) * 1024
    raise TestbedError(f"{meminfo} does not say MemAvailable: this needs Linux 3.14 or later")
