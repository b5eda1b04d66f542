"""One measurement of one side, in a process of its own: wall and processor time, memory, end time, bytes on disk."""

from __future__ import annotations

import json
import resource
import subprocess
import sys
import tempfile
import time
from dataclasses import asdict, dataclass
from pathlib import Path

SIDES = ("virtual", "simpy")


@dataclass(frozen=True, kw_only=True)
class Measured:
    """One run of one side."""

    side: str
    ranks: int
    iterations: int
    wall_s: float
    cpu_s: float
    peak_bytes: int  # resident, of the whole process
    end_ns: int  # simulated
    span_bytes: int


def measure(side: str, ranks: int, iterations: int) -> Measured:
    """``side`` run once, in a new process."""
    command = [sys.executable, "-m", "benchmarks.virtual.sides", side, str(ranks), str(iterations)]
    done = subprocess.run(command, check=True, stdout=subprocess.PIPE, text=True)
    return Measured(**json.loads(done.stdout))


def _run(side: str, ranks: int, iterations: int, folder: Path) -> int:
    """The simulated end, in ns; spans are in ``folder``."""
    paths = [folder / f"{rank}.bin" for rank in range(ranks)]
    if side == "simpy":
        from benchmarks.virtual.in_simpy import Ring

        return Ring(ranks, iterations, paths).run()
    from benchmarks.virtual.exchange import LINK, Exchange, hosts
    from e2c_dl.worlds.virtual import InFiles, simulate

    links = dict.fromkeys(Exchange.links(ranks), LINK)
    sink = InFiles(paths)
    return simulate(Exchange, hosts=hosts(ranks), links=links, sink=sink, iterations=iterations, seed=0).end_ns


def main() -> None:
    """Called by :func:`measure`: side, ranks and iterations are arguments, the answer is JSON."""
    side, ranks, iterations = sys.argv[1], int(sys.argv[2]), int(sys.argv[3])
    with tempfile.TemporaryDirectory() as folder:
        began_s, began_cpu_s = time.monotonic(), time.process_time()
        end_ns = _run(side, ranks, iterations, Path(folder))
        measured = Measured(
            side=side, ranks=ranks, iterations=iterations,
            wall_s=time.monotonic() - began_s, cpu_s=time.process_time() - began_cpu_s,
            peak_bytes=resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024,
            end_ns=end_ns, span_bytes=sum(path.stat().st_size for path in Path(folder).iterdir()),
        )  # fmt: skip
    print(json.dumps(asdict(measured)))


if __name__ == "__main__":
    main()
