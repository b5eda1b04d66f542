"""Memory and processor of this machine, and how scarce they are, as its kernel tells it."""

from __future__ import annotations

from pathlib import Path

from e2c_dl.errors import TestbedError


def memory_available_bytes(meminfo: Path = Path("/proc/meminfo")) -> int:
    """Memory that programs can still get without swapping. Raises: TestbedError, if the kernel does not tell."""
    for line in meminfo.read_text(encoding="ascii").splitlines():
        if line.startswith("MemAvailable:"):
            return int(line.split()[1]) * 1024
    raise TestbedError(f"{meminfo} does not say MemAvailable: this needs Linux 3.14 or later")


def cpu_model(cpuinfo: Path = Path("/proc/cpuinfo")) -> str | None:
    """Name of the processor's model; None where the kernel does not tell, as on ARM."""
    for line in cpuinfo.read_text(encoding="utf-8").splitlines():
        key, _, value = line.partition(":")
        if key.strip() == "model name":
            return value.strip()
    return None


def pressure(root: Path = Path("/proc/pressure")) -> dict[str, float]:
    """cpu, memory, io -> % of the last 10 s in which some process waited for it; empty if the kernel does not tell."""
    found = {}
    for name in ("cpu", "memory", "io"):
        try:
            first = (root / name).read_text(encoding="ascii").split("\n")[0]  # some avg10=0.00 avg60=...
        except OSError:  # a kernel built without it, or one that refuses
            continue
        values = dict(word.split("=") for word in first.split()[1:])
        found[name] = float(values["avg10"])
    return found
