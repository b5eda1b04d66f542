"""Runs of the campaign on this machine's namespaces: real sockets over emulated links, workers that compute shapes.

A run is a whole ``e2c-dl deploy`` of six hosts, of a scenario that is drawn by seed and number. What is injected stands
under ``injected`` in its emulation.yaml, which the diagnosis is not told: slow hosts and slow links, all the time or as
faults; data, steps, delays and losses cannot be injected into a live run. What an injection costs is told by the same
scenario in the virtual world, with and without it: a live run is no two times the same. Only what costs clearly more
than the bar is injected, for the two worlds differ by some percent (benchmarks/agreement).
"""

from __future__ import annotations

import json
import random
import shutil
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from benchmarks.diagnosis.campaign import Judged
from benchmarks.diagnosis.drawn import Drawn, Planned
from benchmarks.diagnosis.injections import Injection, What, When
from benchmarks.diagnosis.judging import Outcome, failed, judged
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
from e2c_dl.scenario.workflow import PROFILE
from e2c_dl.topology import Pair
from e2c_dl.worlds.virtual import ComputeProfile, GradientTimes

ROOT = Path(__file__).parents[2]
FIRST_LIGHT = ROOT / "experiments" / "first-light"
HOSTS = tuple(f"{layer}-{number}" for layer in ("edge", "cloud") for number in (1, 2, 3))
STRATEGIES: Sequence[tuple[str, Mapping[str, int]]] = (
    ("allreduce", {}), ("parameterserver", {}), ("localsgd", {"period": 2}), ("adpsgd", {}),
    ("asyncparameterserver", {}),
)  # fmt: skip
FACTORS = (1.5, 2.0, 3.0, 5.0)
LEAST_COST = 1.10
"""Times faster without it, in the virtual world."""
TRIES = 8
SHORT, LASTS_S, ITERATIONS = 8, 12.0, (24, 80)
DEPLOYED_WITHIN_S = 240.0


@dataclass(frozen=True, kw_only=True)
class LiveSystem:
    """A scenario of six hosts before anything is injected."""

    strategy: str
    settings: Mapping[str, int]
    iterations: int
    rate_mbit: int
    delay_ms: int
    profile: ComputeProfile
    seed: int

    def write(self, folder: Path, injections: Sequence[Injection] = (), undisturbed_s: float = 0.0) -> Path:
        """Its files, with ``injections``, in ``folder``, which is made."""
        folder.mkdir()
        training = {
            "strategy": self.strategy, "mathematics": "shapes", "iterations": self.iterations, "batch_size": 16,
            "model": self.profile.model, "seed": self.seed, "strategy_settings": dict(self.settings),
        }  # fmt: skip
        layers = [
            {"name": layer, "services": [{"name": "Trainer", "quantity": 3, "env": training}]}
            for layer in ("edge", "cloud")
        ]
        environment = {"job_name": "diagnosis", "walltime": "00:10:00", "g5k": {"job_type": [], "cluster": "paradoxe"}}
        network = {"src": "*.*", "dst": "*.*", "rate": f"{self.rate_mbit}mbit", "delay": f"{self.delay_ms}ms"}
        files = {
            "layers_services": {"environment": environment, "layers": layers},
            "network": {"networks": [network]},
            "emulation": {"compute": {"method": "sleep"}, "injected": _injected(injections, undisturbed_s)},
        }
        for name, content in files.items():
            (folder / f"{name}.yaml").write_text(json.dumps(content))  # JSON is YAML
        (folder / "workflow.yaml").write_text((FIRST_LIGHT / "workflow.yaml").read_text())
        (folder / PROFILE).write_text(self.profile.to_json())
        return folder


def campaign(seed: int, runs: int, known: Judged) -> Iterator[Outcome]:
    """The first ``runs`` live runs of ``seed``, one after the other: two at once would slow each other.

    Those ``known`` are not run again.
    """
    for number in range(runs):
        outcome = known.of(seed, number) or judged_run(seed, number)
        known.keep(outcome)
        yield outcome


def judged_run(seed: int, number: int, kept: Path | None = None) -> Outcome:
    """Run ``number`` of ``seed``: drawn, deployed, judged; its archive goes to ``kept``, which is made."""
    begun_s = time.monotonic()
    chance = random.Random(f"live {seed}/{number}")
    with tempfile.TemporaryDirectory(prefix="e2cdl-live-") as name:
        folder = Path(name)
        system, undisturbed_s = _drawn_system(chance, folder)
        costs = _injections(chance, folder, system, undisturbed_s, number)
        injections = tuple(cost.injection for cost in costs)
        scenario = system.write(folder / "scenario", injections, undisturbed_s)
        one = _as_drawn(seed, number, scenario, injections)
        done = _deployed(scenario, folder / "archive")
        if done.returncode:
            return failed(one, done.stderr.strip()[-500:], time.monotonic() - begun_s)
        archive = open_archive(folder / "archive")
        if kept is not None:
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


def _drawn_system(chance: random.Random, folder: Path) -> tuple[LiveSystem, float]:
    """A system whose undisturbed run lasts about LASTS_S, and how long that run takes in the virtual world."""
    strategy, settings = chance.choice(STRATEGIES)
    gradient_s = chance.uniform(0.05, 0.15)
    lengths = ((100_000, 250_000), (0, 100_000))
    times = GradientTimes(data_s=1e-4, forward_s=gradient_s / 3, backward_s=(gradient_s / 3, gradient_s / 3))
    profile = ComputeProfile(
        model="cnn", dtype="float32", parameters=250_000, buckets=lengths, gradients={16: times}, step_s=1e-3,
        evaluate_s=1e-3, copy_s_per_byte=1e-10, accumulate_s_per_byte=2e-10, scale_s_per_byte=1e-10,
    )  # fmt: skip
    short = LiveSystem(
        strategy=strategy, settings=settings, iterations=SHORT, rate_mbit=chance.randint(20, 60),
        delay_ms=chance.randint(2, 10), profile=profile, seed=chance.randrange(1 << 30),
    )  # fmt: skip
    iteration_s = _simulated_s(short.write(folder / "short"), folder / "short-archive") / SHORT
    iterations = round(min(max(LASTS_S / iteration_s, ITERATIONS[0]), ITERATIONS[1]))
    system = replace(short, iterations=iterations)
    return system, _simulated_s(system.write(folder / "undisturbed"), folder / "undisturbed-archive")


def _injections(
    chance: random.Random, folder: Path, system: LiveSystem, undisturbed_s: float, number: int
) -> list[Cost]:  # fmt: skip
    """What is injected, and what it costs in the virtual world: nothing in a third of the runs, else what matters."""
    wanted = (0, 1, 1, 2, 1, 0)[number % 6]
    for attempt in range(TRIES if wanted else 0):
        injections = [_drawn_injection(chance, system) for _ in range(wanted)]
        if len({whom for each in injections for whom in each.names}) < wanted:
            continue
        costs = _costs(folder / f"try-{attempt}", system, injections, undisturbed_s)
        if all(cost.speedup >= LEAST_COST for cost in costs):
            return costs
    return []


def _drawn_injection(chance: random.Random, system: LiveSystem) -> Injection:
    what = chance.choice((What.COMPUTE, What.RATE))
    plan = Planned(what=what, when=chance.choice(list(When)), factor=chance.choice(FACTORS), layer=False)
    begin, length, period = {
        When.PERSISTENT: (0.0, 1.0, 0.0),
        When.LAST_THIRD: (2 / 3, 1 / 3, 0.0),
        When.ONCE: (chance.uniform(0.2, 0.5), chance.uniform(0.15, 0.3), 0.0),
        When.PERIODIC: (0.0, 0.1, 0.25),
    }[plan.when]
    used = _used_links(system)
    return Injection(
        what=what, when=plan.when, factor=plan.factor, amount=plan.factor, begin=begin, length=length, period=period,
        hosts=(chance.choice(HOSTS),) if what is What.COMPUTE else (),
        links=() if what is What.COMPUTE else (chance.choice(used),),
    )  # fmt: skip


def _used_links(system: LiveSystem) -> list[Pair]:
    from e2c_dl import strategies

    layers = [host.rsplit("-", 1)[0] for host in HOSTS]
    pairs = strategies.load(system.strategy)(**system.settings).used_links(layers)
    return [(HOSTS[src], HOSTS[dst]) for src, dst in pairs]


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


def _injected(injections: Sequence[Injection], undisturbed_s: float) -> dict[str, Any]:
    """The section ``injected`` of emulation.yaml."""
    found: dict[str, Any] = {"seed": 1, "compute": [], "links": [], "faults": []}
    for each in injections:
        slowed = {"rate_factor": 1 / each.amount} if each.links else {"factor": each.amount}
        if each.when is When.PERSISTENT:
            found["compute"] += [{"host": host, **slowed} for host in each.hosts]
            found["links"] += [{"src": src, "dst": dst, **slowed} for src, dst in each.links]
            continue
        whom: dict[str, Any] = {"slow_host": each.hosts[0]} if each.hosts else {}
        if each.links:
            whom = {"slow_link": [{"src": src, "dst": dst} for src, dst in each.links]}
        lasts = {} if each.when is When.LAST_THIRD else {"for": _seconds(each.length * undisturbed_s)}
        found["faults"] += [
            {**whom, **slowed, "at": _seconds(at_s), **lasts} for at_s in _begins_s(each, undisturbed_s)
        ]
    return {name: entries for name, entries in found.items() if entries}


def _begins_s(injection: Injection, undisturbed_s: float) -> list[float]:
    """When it begins, each time; a slowed run is longer, so that periods go on beyond the undisturbed one's end."""
    first_s = injection.onset_s(undisturbed_s)
    times = 40 if injection.when is When.PERIODIC else 1
    return [first_s + number * injection.period * undisturbed_s for number in range(times)]


def _seconds(value: float) -> str:
    return f"{round(value * 1e3)}ms"


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
