"""The small environment live, beside the virtual world: three hosts of this machine train for real.

::

    the scenario --e2c-dl deploy, hosts and links emulated--> archive   } the first rank's accuracy over time, and what
                 --e2c-dl simulate, gradients included------> archive   } was sent, read from both alike
    torch DDP (gloo), ddp.py, on such hosts and links                     the same, as its ranks tell it

Computing is paced live by what hosts measure themselves; the other two go by what ``e2c-dl calibrate`` measures here,
just before. The first rank evaluates its own parameters every EVALUATE_EVERY iterations, which takes time of it, in all
three. Nothing in the virtual world is DDP: the strategy ``allreduce`` is what stands for it there.
"""

from __future__ import annotations

import json
import shutil
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import asdict, replace
from pathlib import Path
from typing import Any

import yaml

from benchmarks.script_bed import python, torch_environ, up
from benchmarks.systems import ddp, table
from benchmarks.systems.campaign import CODE, Done
from benchmarks.systems.environments import SMALL
from benchmarks.systems.trial import AFTER_S, Asked, Ran, Spans, experiment_files
from e2c_dl.archive.read import ReadArchive, open_archive
from e2c_dl.scenario.load import load
from e2c_dl.trace.model import Phase

PART = "live"
DDP = "torch DDP (gloo)"
STANDS_FOR_DDP = "all-reduce"
SYSTEMS = ("DLion", "Ako", STANDS_FOR_DDP)
WORLDS = ("live", "virtual")
TARGET = 0.25  # lower than elsewhere: three hosts draw half as many samples, and have 40 s
EVALUATE_EVERY = 10  # iterations
SEED = 1
TOOK_S: Mapping[str, float] = {"live": 100.0, "virtual": 25.0}  # guesses, for who waits
MEASURED = (*CODE, *(f"benchmarks/systems/{name}.py" for name in ("live", "ddp")), "e2c_dl/drivers", "e2c_dl/training")
ROOT = Path(__file__).resolve().parents[2]
_WITHIN_S = 300.0


class Beside:
    """What was made of each system in each world: a file of trials per world, as campaigns have, beside ``into``."""

    def __init__(self, into: Path, only: Sequence[str] = ()) -> None:
        self.systems = tuple(only or SYSTEMS)
        self._done = {world: Done(into.with_name(f"{into.stem}-{world}.jsonl"), MEASURED) for world in WORLDS}

    def of(self, system: str, world: str) -> Ran | None:
        """What came of it; None: nothing was made, or it failed."""
        came = self._done[world].trials.get(_asked(system))
        return None if came is None or came.problem else came

    @property
    def rows(self) -> tuple[str, ...]:
        return (DDP, *self.systems)

    @property
    def left(self) -> list[tuple[str, str]]:
        """(system, world) of what is still to be made; what failed is tried again."""
        return [each for each in self._all() if self.of(*each) is None]

    @property
    def problems(self) -> list[str]:
        """What went wrong, a sentence for each run that failed."""
        found = [(system, world, self._done[world].trials.get(_asked(system))) for system, world in self._all()]
        return [f"{system}, {world}: {came.problem}" for system, world, came in found if came and came.problem]

    def recorded(self) -> dict[str, list[dict[str, Any]]]:
        """All that was made, by world."""
        return {
            world: [asdict(came) for each, its in self._all() if its == world and (came := self.of(each, world))]
            for world in WORLDS
        }

    def made(self, tell: Callable[[str, str, Ran], None]) -> None:
        """Make what is left, one after another: two at once would slow each other."""
        for system, world in self.left:
            began_s = time.monotonic()
            came = replace(_MADE[world](_asked(system)), took_s=time.monotonic() - began_s)
            self._done[world].keep(came)
            tell(system, world, came)

    def _all(self) -> Iterator[tuple[str, str]]:
        yield DDP, "live"
        for system in self.systems:
            for world in WORLDS:
                yield system, world


def _asked(system: str) -> Asked:
    return Asked(system=system, environment=SMALL.name, seed=SEED)


def live(asked: Asked) -> Ran:
    """``asked`` trained for real on this machine's hosts; a run that fails is told as its problem."""
    if asked.system == DDP:
        return by_ddp(asked)
    return _by_command(asked, ["deploy", "{scenario}", str(ROOT / "artifacts"), "--on", "local"])


def virtual(asked: Asked) -> Ran:
    """The same scenario simulated, with real gradients, by the pace of this machine."""
    return _by_command(asked, ["calibrate", "{scenario}"], ["simulate", "{scenario}"])


_MADE: Mapping[str, Callable[[Asked], Ran]] = {"live": live, "virtual": virtual}


def _by_command(asked: Asked, *commands: Sequence[str]) -> Ran:
    """What comes of ``e2c-dl``'s commands, the last of which leaves an archive."""
    with tempfile.TemporaryDirectory(prefix="systems-") as name:
        folder = Path(name)
        scenario, archive = written(folder / "scenario", table.system(asked.system)), folder / "archive"
        for number, words in enumerate(commands, start=1):
            more = ["--archive", str(archive)] if number == len(commands) else []
            problem = _commanded([*(word.format(scenario=scenario) for word in words), *more], folder)
            if problem:
                return Ran(asked=asked, problem=problem)
        return told(asked, open_archive(archive))


def _commanded(words: Sequence[str], folder: Path) -> str:
    """What the command complained of; empty if it succeeded."""
    argv = [sys.executable, "-c", "from e2c_dl.cli.main import main; main()", *words]
    ended = subprocess.run(argv, capture_output=True, text=True, check=False, timeout=_WITHIN_S, cwd=folder)
    return (ended.stderr.strip()[-500:] or f"exit status {ended.returncode}") if ended.returncode else ""


def written(folder: Path, system: table.System, seconds: float = SMALL.within_s) -> Path:
    """The scenario of the small environment by ``system``, in ``folder``, which is made."""
    for name, content in {**experiment_files(), **SMALL.files()}.items():
        (folder / name).parent.mkdir(parents=True, exist_ok=True)
        (folder / name).write_bytes(content)
    services = folder / "layers_services.yaml"
    content = yaml.safe_load(services.read_text(encoding="utf-8"))
    for layer in content["layers"]:
        layer["services"][0]["env"].update(_said(system, seconds))
    services.write_text(yaml.safe_dump(content, sort_keys=False), encoding="utf-8")
    return folder


def _said(system: table.System, seconds: float) -> dict[str, Any]:
    """What of the training is not the experiment's."""
    return {
        "strategy": system.strategy, "strategy_settings": dict(system.settings), "batching": system.batching,
        "compression": system.compression, "compression_settings": dict(system.compression_settings),
        "seconds": seconds, "seed": SEED, "evaluate_every": EVALUATE_EVERY,
    }  # fmt: skip


def told(asked: Asked, archive: ReadArchive) -> Ran:
    """What ``archive`` says, of either world."""
    trace = archive.trace()
    lines = archive.host(trace.ranks[0].host).progress()
    # the last line is of the strategy's own final model
    curve = [(line.elapsed_s, line.accuracy) for line in lines if line.accuracy is not None and line.loss is not None]
    spans, begins_ns = Spans(len(trace.ranks)), []
    for each in trace.ranks:
        begins_ns += each.spans["start_ns"][each.spans["phase"] == Phase.TRAINING].tolist()
    for each in trace.ranks:
        own = each.spans.copy()
        for field in ("posted_ns", "start_ns", "end_ns"):
            own[field] -= min(begins_ns)
        spans.write(each.rank, own.tobytes())
    came = _of_curve(asked, curve)
    return replace(
        came, bytes_to_target=None if came.reached_s is None else spans.sent_by(came.reached_s),
        iterations=tuple(int((each.spans["phase"] == Phase.ITERATION).sum()) for each in trace.ranks),
        computing=tuple(round(each, 3) for each in spans.busy),
    )  # fmt: skip


def by_ddp(asked: Asked, seconds: float = SMALL.within_s) -> Ran:
    """DistributedDataParallel on hosts and links of the small environment."""
    with tempfile.TemporaryDirectory(prefix="systems-") as name:
        folder = Path(name)
        path = written(folder / "scenario", table.system(STANDS_FOR_DDP), seconds)
        if problem := _commanded(["calibrate", str(path)], folder):
            return Ran(asked=asked, problem=problem)
        scenario = load(path)
        topology = scenario.emulated_topology()
        with up(tuple(host.name for host in topology.ranks)) as bed:
            for access in bed.accesses:  # hosts see no other folder of this machine's /tmp
                shutil.copytree(scenario.path, Path(access.run_dir) / ddp.SCENARIO)
            with bed.joined(topology.links, topology.bottlenecks):
                bed.run(python("-m", "benchmarks.systems.ddp"), torch_environ(bed), within_s=_WITHIN_S)
            ranks = [_read(Path(access.run_dir) / ddp.TOLD) for access in bed.accesses]
    came = _of_curve(asked, [(line["at_s"], line["accuracy"]) for line in ranks[0]])
    place = next((number for number, line in enumerate(ranks[0]) if line["at_s"] == came.reached_s), None)
    return replace(
        came, bytes_to_target=None if place is None else sum(lines[place]["sent_bytes"] for lines in ranks),
        iterations=tuple(lines[-1]["iteration"] for lines in ranks),
    )  # fmt: skip


def _read(file: Path) -> list[dict[str, Any]]:
    return [json.loads(line) for line in file.read_text(encoding="utf-8").splitlines()]


def _of_curve(asked: Asked, curve: Sequence[tuple[float, float]]) -> Ran:
    before = [accuracy for at_s, accuracy in curve if at_s <= AFTER_S]
    return Ran(
        asked=asked, curve=tuple(curve), accuracy=before[-1] if before else float("nan"),
        reached_s=next((at_s for at_s, accuracy in curve if accuracy >= TARGET), None),
    )  # fmt: skip
