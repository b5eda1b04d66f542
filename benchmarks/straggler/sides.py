"""One measurement of one side: whole commands, from their start to the figures on disk or on standard output."""

from __future__ import annotations

import json
import os
import resource
import subprocess
import sys
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

Figures = Mapping[str, float]
"""S, M_W and M_S by these names, S_t as ``S_t KIND``."""


@dataclass(frozen=True, kw_only=True)
class Measured:
    """One run of one side on one trace."""

    side: str
    trace: str
    wall_s: float
    cpu_s: float
    figures: Figures


@dataclass(frozen=True, kw_only=True)
class Theirs:
    """The program of Lin et al., and the Python that runs it."""

    folder: Path  # a work tree
    python: Path

    def measure(self, trace: str, out: Path) -> Measured:
        """S and S_t, then M_S, then M_W: three commands, as their ``run_all.sh`` has them."""
        data = self.folder / "data"
        beside = ["--dump-dir", str(out), "--root", str(out)]
        result = ["--trial", trace, "--analysis-result", str(out / f"{trace}.json")]
        what_if = ["--metadata", str(data / f"meta-{trace}.yaml"), "--trace", str(data / f"trace-{trace}.parquet")]
        spent = [
            self._run("wia.py", [*what_if, *beside]),
            self._run("compute_ms.py", [*result, *beside]),
            self._run("compute_mw.py", [*result, *beside]),
        ]
        wall_s, cpu_s = (sum(part) for part in zip(*spent, strict=True))
        return Measured(side="theirs", trace=trace, wall_s=wall_s, cpu_s=cpu_s, figures=published(out, "", trace))

    def _run(self, program: str, arguments: Sequence[str]) -> tuple[float, float]:
        analyzer = self.folder / "analyzer"
        environment = {**os.environ, "PYTHONPATH": f"{self.folder}:{analyzer}", "OMP_NUM_THREADS": "1"}
        return _spent([str(self.python), str(analyzer / program), *arguments], environment)[:2]


def ours(path: Path, trace: str) -> Measured:
    """``e2c-dl stragglers`` on the trace at ``path``."""
    main = "import sys; sys.argv[0] = 'e2c-dl'; from e2c_dl.cli.main import main; main()"
    command = [sys.executable, "-c", main, "stragglers", str(path), "--json"]
    wall_s, cpu_s, text = _spent(command, {**os.environ, "OMP_NUM_THREADS": "1"})
    found = json.loads(text)
    kinds = {f"S_t {kind}": slowdown for kind, slowdown in found["slowdown_by_kind"].items()}
    figures = {"S": found["slowdown"], "M_W": found["slowest_share"], "M_S": found["last_stage_share"], **kinds}
    return Measured(side="ours", trace=trace, wall_s=wall_s, cpu_s=cpu_s, figures=figures)


def published(folder: Path, prefix: str, trace: str) -> Figures:
    """What their program has written into ``folder`` (``prefix``: ``result-``, of what they published with it)."""
    result, of_workers, of_stage = (
        json.loads((folder / f"{name}{trace}.json").read_text()) for name in (prefix, "mw-", "ms-")
    )
    kinds: dict[str, Any] = result["blocking_decompose_by_optype"]
    shares = {"S": result["blocking_slowdown"], "M_W": of_workers["Mw"], "M_S": of_stage["Ms"]}
    return {**shares, **{f"S_t {kind}": slowdown for kind, slowdown in kinds.items()}}


def _spent(command: Sequence[str], environment: Mapping[str, str]) -> tuple[float, float, bytes]:
    """Wall and processor seconds of one process and those that it waited for, and its standard output."""
    before, began_s = resource.getrusage(resource.RUSAGE_CHILDREN), time.monotonic()
    done = subprocess.run(command, check=True, env=environment, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL)
    wall_s, after = time.monotonic() - began_s, resource.getrusage(resource.RUSAGE_CHILDREN)
    cpu_s = after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime
    return wall_s, cpu_s, done.stdout
