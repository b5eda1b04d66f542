"""What is asked of the diagnosis: a slow phase of one rank, a slow link, nothing; and whether it names that alone."""

from __future__ import annotations

import os
import random
import shlex
import sys
from collections.abc import Iterator, Mapping
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from benchmarks.collectives import beds
from benchmarks.launched import launched
from benchmarks.script_bed import Bed
from e2c_dl.archive.read import open_archive
from e2c_dl.campaign.traced import collected
from e2c_dl.diagnosis.diagnose import diagnose
from e2c_dl.diagnosis.model import Element, ElementKind, Part, Report
from e2c_dl.topology import Link, Pair
from e2c_dl.tracing.settings import Settings

RANKS = 4
SCRIPT = str(Path(__file__).with_name("script.py"))
HOROVOD = str(Path(__file__).with_name("with_horovod.py"))
RATE_BPS, DELAY_S = 40e6, 0.002
PHASE_WIDTH, LINK_WIDTH = 384, 256  # of the layers: 1.2 and 0.5 MB of gradients
PARTS = {"backward": Part.COMPUTE, "data": Part.DATA, "optimizer": Part.STEP}


@dataclass(frozen=True, kw_only=True)
class Case:
    """One run, and what is true of it."""

    side: str  # ddp, horovod
    what: str  # a phase, "link", "clean"
    rank: int = -1
    link: Pair | None = None
    times: float = 1.0  # slower

    @property
    def element(self) -> Element | None:
        if self.link is not None:
            return Element(kind=ElementKind.LINK, src=self.link[0], dst=self.link[1])
        return None

    def held(self, report: Report) -> bool:
        """Whether ``report`` names what is true, and nothing else; of a clean run, whether it names no link."""
        if self.what == "clean":
            return not any(each.kind is ElementKind.LINK for each in report.blamed)
        if self.link is not None:
            return report.blamed == {self.element}
        hosts = {summary.rank: summary.host for summary in report.hosts}
        found = [(finding.element.src, finding.part) for finding in report.culprits]
        return found == [(hosts[self.rank], PARTS[self.what])]


@dataclass(frozen=True, kw_only=True)
class Judged:
    """A case, and what was said."""

    case: Case
    held: bool
    blamed: tuple[str, ...]

    @property
    def plain(self) -> dict[str, object]:
        """As JSON has it."""
        return {**asdict(self.case), "held": self.held, "blamed": list(self.blamed)}

    @classmethod
    def of(cls, plain: Mapping[str, Any]) -> Judged:
        """What :attr:`plain` was of."""
        own = {name: plain[name] for name in ("side", "what", "rank", "times")}
        link = None if plain["link"] is None else tuple(plain["link"])
        return cls(case=Case(**own, link=link), held=plain["held"], blamed=tuple(plain["blamed"]))


def phases(repeats: int, seed: int) -> Iterator[Case]:
    """Each part slow on ``repeats`` random ranks."""
    draw = random.Random(f"phases {seed}")
    for what in PARTS:
        for _ in range(repeats):
            yield Case(side="ddp", what=what, rank=draw.randrange(RANKS))


def links(side: str, slow: int, clean: int, seed: int) -> Iterator[Case]:
    """``slow`` random links on the ring, 2 to 4 times slower, and ``clean`` runs."""
    draw = random.Random(f"{side} {seed}")
    for _ in range(slow):
        src = draw.randrange(len(beds.HOSTS))
        dst = (src - 1) % len(beds.HOSTS)  # gloo's ring goes down
        times = draw.choice((2.0, 2.5, 3.0, 4.0))
        yield Case(side=side, what="link", link=(beds.HOSTS[src], beds.HOSTS[dst]), times=times)
    for _ in range(clean):
        yield Case(side=side, what="clean")


def of_phase(case: Case, folder: Path, iterations: int) -> Judged:
    """``case`` run under torchrun on this machine. Raises: RuntimeError."""
    torchrun = [sys.executable, "-m", "torch.distributed.run", "--nproc-per-node", str(RANKS), "--standalone"]
    argv = [*torchrun, SCRIPT, str(iterations), str(PHASE_WIDTH), str(case.rank), case.what]
    environ = Settings(archive=folder, layer="all").environment({**os.environ, "OMP_NUM_THREADS": "1"})
    status, said = launched(argv, environ)
    if status:
        raise RuntimeError(f"{shlex.join(argv)}: {status}: {said}")
    return judged(case, collected([folder], folder))


def of_link(case: Case, bed: Bed, folder: Path, iterations: int, seed: int) -> Judged:
    """``case`` run on ``bed``. Raises: RuntimeError."""
    slow = {} if case.link is None else {case.link: Link(rate_bps=RATE_BPS / case.times, delay_s=DELAY_S)}
    script = HOROVOD if case.side == "horovod" else SCRIPT
    argv = [script, str(iterations), str(LINK_WIDTH)]
    return judged(case, beds.trained(bed, beds.links(RATE_BPS, DELAY_S, slow), argv, folder, seed))


def judged(case: Case, archive: Path) -> Judged:
    """What diagnosis says of ``archive``."""
    report = diagnose(open_archive(archive)).report
    blamed = tuple(f"{finding.element}: {finding.part.value}" for finding in report.culprits)
    return Judged(case=case, held=case.held(report), blamed=blamed)
