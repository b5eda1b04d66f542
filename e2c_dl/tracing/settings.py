"""Settings of the tracer, which reach every process of a run through its environment, below E2CDL_."""

from __future__ import annotations

import os
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

from e2c_dl import resources
from e2c_dl.beneath import LARGE_BYTES
from e2c_dl.trace.attaching import CAP, DIRECTORY, LAYER, TRACE

RANK_PROCESS = "E2CDL_RANK_PROCESS"
"""Of a rank's children: who began them. They are none, whatever they do."""


@dataclass(frozen=True, kw_only=True)
class Settings:
    """Where the traces of a run are left on this host, how large each may get, and which layer of the run it is."""

    archive: Path
    layer: str = "all"
    cap_bytes: int = LARGE_BYTES

    @classmethod
    def of(cls, environment: Mapping[str, str]) -> Settings | None:
        """Those that ``environment`` says; None where nothing is to be traced, as in a rank's children."""
        archive = environment.get(TRACE)
        began = environment.get(RANK_PROCESS)
        if not archive or (began is not None and began != str(os.getpid())):
            return None
        cap = environment.get(CAP, "")
        cap_bytes = min(int(cap), LARGE_BYTES) if cap.isascii() and cap.isdigit() else LARGE_BYTES
        return cls(archive=Path(archive), layer=environment.get(LAYER) or "all", cap_bytes=cap_bytes)

    def environment(self, base: Mapping[str, str]) -> dict[str, str]:
        """``base`` for a command all of whose Python processes attach by themselves."""
        path = os.pathsep.join([str(resources.bootstrap_dir()), *filter(None, [base.get("PYTHONPATH")])])
        kept = {name: value for name, value in base.items() if name != RANK_PROCESS}
        own = {TRACE: str(self.archive), LAYER: self.layer, CAP: str(self.cap_bytes), DIRECTORY: directory()}
        return {**kept, "PYTHONPATH": path, **own}


def directory() -> str:
    """The working directory; empty, if it was removed."""
    try:
        return os.getcwd()
    except FileNotFoundError:
        return ""
