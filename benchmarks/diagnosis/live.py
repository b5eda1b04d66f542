"""Runs of the campaign on this machine's namespaces: real sockets over emulated links, workers that compute shapes.

A run is a whole ``e2c-dl deploy`` of six hosts, of a scenario that is drawn by seed and number (``live_system``). What
is injected stands under ``injected`` in its emulation.yaml, which the diagnosis is not told. What an injection costs is
told by the same scenario in the virtual world, with and without it: a live run is no two times the same. Only what
costs clearly more than the bar is injected, for the two worlds differ by some percent (benchmarks/agreement).
"""

from __future__ import annotations

import random
import shutil
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator, Sequence
from dataclasses import replace
from pathlib import Path

from benchmarks.diagnosis.campaign import Judged
from benchmarks.diagnosis.drawn import LAYER, NONE, ONE, TWO, Drawn
from benchmarks.diagnosis.injections import Injection, What
from benchmarks.diagnosis.judging import Outcome, failed, judged
from benchmarks.diagnosis.live_system import HOSTS, SHORT, LiveSystem, drawn_injections, drawn_system
from benchmarks.diagnosis.onsets import onset_iteration
from benchmarks.diagnosis.rules import named_by_rules
from benchmarks.diagnosis.system import System, run_s
from benchmarks.diagnosis.truth import Cost, Truth
from e2c_dl.archive.read import ReadArchive, open_archive
from e2c_dl.campaign.simulated import SimulationRequest
from e2c_dl.campaign.simulated import run as simulated
from e2c_dl.cli.telling.console import open_console
from e2c_dl.diagnosis.diagnose import read_report
from e2c_dl.scenario.load import load

ROOT = Path(__file__).parents[2]
WANTED = (NONE, ONE, LAYER, TWO, ONE, NONE)  # by number, again and again
LEAST_COST = 1.10
"""Times faster without it, in the virtual world."""
LEAST_COSTS = {What.LOSS: 1.25}  # what is lost, and so what it costs, is by chance
TRIES = 8
DEPLOYED_WITHIN_S = 240.0


def campaign(seed: int, runs: int, known: Judged, kept: Path | None = None) -> Iterator[Outcome]:
    """The first ``runs`` live runs of ``seed``, one after the other: two at once would slow each other.

    Those ``known`` are not run again. Archives of those that are wrong go to ``kept``, by number.
    """
    for number in range(runs):
        outcome = known.of(seed, number)
        if outcome is None:
            own = None if kept is None else kept / f"{seed}-{number}"
            outcome = judged_run(seed, number, own)
            if own is not None and outcome.right:
                shutil.rmtree(own)
        known.keep(outcome)
        yield outcome


def judged_run(seed: int, number: int, kept: Path | None = None) -> Outcome:
    """Run ``number`` of ``seed``: drawn, deployed, judged; its archive goes to ``kept``, which is made."""
    begun_s = time.monotonic()
    chance = random.Random(f"live {seed}/{number}")
    with tempfile.TemporaryDirectory(prefix="e2cdl-live-") as name:
        folder = Path(name)
        system = drawn_system(
            chance, lambda short: _simulated_s(short.write(folder / "short"), folder / "short-archive") / SHORT
        )
        undisturbed_s = _simulated_s(system.write(folder / "undisturbed"), folder / "undisturbed-archive")
        costs = _injections(chance, folder, system, undisturbed_s, number)
        injections = tuple(cost.injection for cost in costs)
        scenario = system.write(folder / "scenario", injections, undisturbed_s)
        one = _as_drawn(seed, number, scenario, injections)
        done = _deployed(scenario, folder / "archive")
        if done.returncode:
            return failed(one, done.stderr.strip()[-500:], time.monotonic() - begun_s)
        archive = open_archive(folder / "archive")
        if kept is not None:
            shutil.rmtree(kept, ignore_errors=True)  # of a run that was made before
            shutil.copytree(folder / "archive", kept)
        return _judged(one, archive, costs, undisturbed_s, time.monotonic() - begun_s)


def _judged(
    one: Drawn, archive: ReadArchive, costs: Sequence[Cost], undisturbed_s: float, seconds: float
) -> Outcome:  # fmt: skip
    trace, report = archive.trace(), read_report(archive)
    seen = [
        replace(cost, onset_iteration=onset_iteration(one.system, trace, cost.injection, undisturbed_s))
        for cost in costs
    ]
    told = Truth(trace=trace, run_s=run_s(trace), undisturbed_s=undisturbed_s, costs=tuple(seen))
    outcome = judged(one, told, report, named_by_rules(trace), seconds)
    plain = tuple(replace(each, predicted_error=None) for each in outcome.culprits)  # nobody ran it again live
    return replace(outcome, culprits=plain)


def _injections(
    chance: random.Random, folder: Path, system: LiveSystem, undisturbed_s: float, number: int
) -> list[Cost]:  # fmt: skip
    """What is injected, and what it costs in the virtual world: nothing in a third of the runs, else what matters."""
    wanted = WANTED[number % len(WANTED)]
    for attempt in range(TRIES if wanted != NONE else 0):
        injections = drawn_injections(chance, system, wanted)
        costs = _costs(folder / f"try-{attempt}", system, injections, undisturbed_s)
        if costs and all(cost.speedup >= LEAST_COSTS.get(cost.injection.what, LEAST_COST) for cost in costs):
            return costs
    return []


def _costs(folder: Path, system: LiveSystem, injections: Sequence[Injection], undisturbed_s: float) -> list[Cost]:
    folder.mkdir()

    def took_s(name: str, in_force: Sequence[Injection]) -> float:
        if not in_force:
            return undisturbed_s
        return _simulated_s(system.write(folder / name, in_force, undisturbed_s), folder / f"{name}-archive")

    whole_s = took_s("all", injections)
    costs = []
    for index, injection in enumerate(injections):
        without_s = took_s(f"without-{index}", [other for other in injections if other is not injection])
        only_s = took_s(f"only-{index}", [injection]) if len(injections) > 1 else whole_s
        costs.append(
            Cost(
                injection=injection, with_s=whole_s, without_s=without_s, alone=whole_s / without_s,
                jointly=only_s / undisturbed_s, onset_iteration=None,
            )
        )  # fmt: skip
    return costs


def _simulated_s(scenario: Path, archive: Path) -> float:
    request = SimulationRequest(
        scenario=scenario, archive=archive, shapes_only=True, analysed=False, command=("benchmarks.diagnosis",)
    )
    return run_s(open_archive(simulated(request, open_console(quiet=True))).trace())


def _deployed(scenario: Path, archive: Path) -> subprocess.CompletedProcess[str]:
    argv = [sys.executable, "-c", "from e2c_dl.cli.main import main; main()", "deploy", str(scenario)]
    argv += [str(ROOT / "artifacts"), "--archive", str(archive), "--json"]
    return subprocess.run(argv, capture_output=True, text=True, check=False, timeout=DEPLOYED_WITHIN_S)


def _as_drawn(seed: int, number: int, scenario: Path, injections: tuple[Injection, ...]) -> Drawn:
    read = load(scenario)
    system = System(scenario=read, profiles={}, hardware=dict.fromkeys(HOSTS, "this machine"), noise=0.0)
    return Drawn(seed=seed, number=number, system=system, tries=(injections,))
