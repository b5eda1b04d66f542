"""Ways to hosts that nobody goes: only where their run directories are counts."""

from __future__ import annotations

from pathlib import Path

from e2c_dl.testbeds.base import Access


def access(name: str, run_dir: Path) -> Access:
    return Access(
        name=name, address="198.18.0.1", data_address="", data_device="", user="root", keyfile="/key", port=22,
        python="python3", run_dir=str(run_dir),
    )  # fmt: skip
