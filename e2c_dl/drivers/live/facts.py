"""Facts of this host: hardware, kernel, versions; the part of a run's record that its scenario cannot know."""

from __future__ import annotations

import os
import platform
from pathlib import Path
from typing import Any

import numpy as np

from e2c_dl import __version__
from e2c_dl.archive.records import ComputeFacts, HostFacts
from e2c_dl.memory import cpu_model


def host_facts(torch: dict[str, Any], compute: ComputeFacts) -> HostFacts:
    """Hardware, kernel, distribution and versions, beside what only who has torch can tell; ``torch`` may be empty."""
    return HostFacts(
        host_name=platform.node(), machine=platform.machine(),
        cpu_model=_cpu_model(),
        cores=os.cpu_count(), usable_cores=len(os.sched_getaffinity(0)),
        memory_bytes=int((_labelled("/proc/meminfo", "MemTotal") or "0 kB").split()[0]) * 1024,
        kernel=platform.release(), distribution=_distribution(),
        versions={
            "e2c_dl": __version__, "python": platform.python_version(), "numpy": np.__version__,
            **({"torch": torch["version"]} if torch else {}),
        },
        torch=torch, compute=compute,
    )  # fmt: skip


def hardware_class(facts: HostFacts) -> str:
    """Equal on hosts whose compute times are comparable."""
    return _hardware(facts.cpu_model or "unknown", facts.torch)


def this_hardware(torch: dict[str, Any]) -> str:
    """The same of this host, with this ``torch``."""
    return _hardware(_cpu_model(), torch)


def _hardware(cpu_model: str, torch: dict[str, Any]) -> str:
    gpu = f", {torch['device_name']}" if "device_name" in torch else ""
    return f"{cpu_model}, torch {torch['version']} {torch['cpu_capability']}{gpu}"


def machine_id() -> str:
    """Equal on hosts that are one machine, such as namespaces."""
    return Path("/proc/sys/kernel/random/boot_id").read_text().strip()


def _cpu_model() -> str:
    return cpu_model() or platform.processor() or "unknown"


def tcp_limits(root: Path = Path("/proc/sys/net/ipv4")) -> dict[str, str]:
    """What this host lets TCP do, as its kernel says: least, first and largest buffers in bytes, restart after idle."""
    names = ("tcp_rmem", "tcp_wmem", "tcp_slow_start_after_idle")
    return {name: " ".join((root / name).read_text().split()) for name in names}


def _labelled(path: str, label: str) -> str | None:
    """The value of the first ``label : value`` line of a file of /proc; None if it has none."""
    for line in Path(path).read_text().splitlines():
        key, _, value = line.partition(":")
        if key.strip() == label:
            return value.strip()
    return None


def _distribution() -> str:
    try:
        return platform.freedesktop_os_release()["PRETTY_NAME"]
    except OSError:  # a minimal image has no os-release
        return "unknown"
