"""Comparisons of runs: what differs, what does not, and what must not be compared."""

import json
import re
import shutil
from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace

import numpy as np
import pytest
import simulated_scenario
import virtual_world
from commands import said
from compared import SETTINGS, alone, by_metric, drawn, run

from e2c_dl.cli.analysis.analyses import METRICS
from e2c_dl.diagnosis.comparing.compare import VARIES, Metric, compare
from e2c_dl.diagnosis.comparing.figures import Culprit, Group, accuracies_of, iterations_of, run_s
from e2c_dl.diagnosis.model import Part
from e2c_dl.errors import InputError
from e2c_dl.strategies.allreduce import Allreduce
from e2c_dl.strategies.prague import Prague
from e2c_dl.trace.model import Phase


def test_a_slower_run_is_slower() -> None:
    before, after = run("a", iteration_s=drawn(0, 1.0, 0.05)), run("b", iteration_s=drawn(1, 1.2, 0.05))
    found = by_metric(alone(before, after))
    makespan, iteration = found[Metric.MAKESPAN], found[Metric.ITERATION]
    assert makespan.differs and iteration.differs and iteration.by == "iterations"
    assert makespan.relative == pytest.approx(0.2, abs=0.03)
    assert iteration.interval.low < 0.2 < iteration.interval.high
    assert makespan.interval.high - makespan.interval.low == pytest.approx(
        50 * (iteration.interval.high - iteration.interval.low)
    )
    assert not found[Metric.BYTES].differs and found[Metric.BYTES].smallest == 0


def test_no_difference_says_what_would_have_been_seen() -> None:
    before, after = run("a", iteration_s=drawn(0, 1.0, 0.2)), run("b", iteration_s=drawn(1, 1.0, 0.2))
    found = by_metric(alone(before, after))[Metric.ITERATION]
    assert found.differs is False
    assert 0.05 < found.smallest < 0.25  # 2.8 * 0.2 * sqrt(2 / 50) is 0.11


def test_noise_that_both_sides_share_is_no_noise() -> None:
    shared = drawn(3, 1.0, 0.5)
    found = by_metric(alone(run("a", iteration_s=shared), run("b", iteration_s=shared + 0.01)))[Metric.ITERATION]
    assert found.differs and found.interval.low == pytest.approx(0.01)


def test_several_runs_are_paired_by_their_seeds() -> None:
    by_seed = [3.0, 1.0, 2.0]
    sides = [
        Group(name=name, runs=tuple(run(f"{name}{s}", seed=s, run_s=by_seed[s] + more) for s in order))
        for name, more, order in (("a", 0.0, (0, 1, 2)), ("b", 0.1, (2, 0, 1)))
    ]
    paired = by_metric(compare(sides))[Metric.MAKESPAN]
    assert (paired.by, paired.differs) == ("pairs of runs", True)
    other = Group(name="b", runs=tuple(replace(one, seeds=(("training", 9),)) for one in sides[1].runs))
    apart = by_metric(compare([sides[0], other]))[Metric.MAKESPAN]
    assert (apart.by, apart.differs) == ("runs", False)


def test_time_to_what_all_runs_reached() -> None:
    before = run("a", accuracies=((1.0, 0.5), (2.0, 0.8), (3.0, 0.9)))
    after = run("b", accuracies=((1.5, 0.6), (4.0, 0.85)))
    found = alone(before, after)
    assert found.accuracy == 0.85
    difference = by_metric(found)[Metric.TIME_TO_ACCURACY]
    assert (difference.before, difference.after, difference.interval) == (3.0, 4.0, None)
    sooner = by_metric(alone(before, after, accuracy=0.55))[Metric.TIME_TO_ACCURACY]
    assert (sooner.before, sooner.after) == (2.0, 1.5)
    never = by_metric(alone(before, after, accuracy=0.99))[Metric.TIME_TO_ACCURACY]
    assert (never.before, never.after, never.differs) == (None, None, None)
    half = by_metric(alone(before, after, accuracy=0.88))[Metric.TIME_TO_ACCURACY]
    assert (half.before, half.after, half.relative) == (3.0, None, None)


@pytest.mark.parametrize("key", ["model", "dataset"])
def test_other_work_is_refused_by_its_key(key: str) -> None:
    other = run("b", settings={**SETTINGS, key: "other"})
    with pytest.raises(InputError, match=f"^{key}: .* in a, other in b; compare runs that train the same"):
        alone(run("a"), other)
    assert any(line.startswith(f"{key}: ") for line in alone(run("a"), other, anyway=True).limitations)


def test_other_samples_are_told() -> None:
    found = alone(run("a"), run("b", settings={**SETTINGS, "batch_sizes": [16, 48]}, finished=False))
    assert found.limitations == (
        "batch_sizes: 32 in a, 64 in b: they do not do the same work.",
        "b did not finish: figures are of the 50 iterations all finished, and it has no makespan.",
    )
    assert alone(run("a"), run("b", settings={**SETTINGS, "batch_sizes": [8, 24]})).limitations == ()


def test_what_an_older_archive_does_not_say_is_no_difference() -> None:
    older = {key: value for key, value in SETTINGS.items() if key not in ("model", "batch_sizes")}
    found = alone(run("a", settings=older), run("b"))
    assert (found.limitations, found.contrasts[0].settings) == ((), {})


def test_a_setting_is_a_groups_if_all_of_its_runs_have_it() -> None:
    def group(name: str, strategy: str, *speeds: str) -> Group:
        settings = [{**SETTINGS, "strategy": strategy, "host edge-1": speed} for speed in speeds]
        return Group(name=name, runs=tuple(run(f"{name}{each}", settings=one) for each, one in enumerate(settings)))

    found = compare([group("a", "allreduce", "1 of a core", "0.5 of a core"), group("b", "ako", *["1 of a core"] * 2)])
    assert found.contrasts[0].settings == {"strategy": ("allreduce", "ako"), "host edge-1": (VARIES, "1 of a core")}


def test_one_live_run_a_side_says_what_its_intervals_leave_out() -> None:
    found = alone(run("a", world="local"), run("b", world="local"))
    assert found.limitations == ("One run of a or b: how much another run of the same differs is in no interval.",)


def test_culprits_of_several_runs_are_told_together() -> None:
    slow = Culprit(element="edge-1", part=Part.COMPUTE, slowdown=2.0)
    named = [
        (slow,),
        (Culprit(element="a -> b", part=Part.DELAY, slowdown=1.5), replace(slow, slowdown=2.5)),
        (Culprit(element="fog-1", part=Part.STALLED, slowdown=1.0, stalled_s=8.02), replace(slow, part=Part.DATA)),
    ]
    group = Group(name="b", runs=tuple(run(f"b{i}", culprits=each) for i, each in enumerate(named)))
    found = compare([Group(name="a", runs=(run("a", culprits=named[0]),)), group])
    assert found.culprits == ("edge-1 computes 2.0 × slower",)
    assert found.contrasts[0].culprits == (
        "edge-1 computes 2.0 to 2.5 × slower (2 of 3 runs)",
        "a -> b delivers later, and so carries data 1.5 × slower (1 of 3 runs)",
        "fog-1 stalled for 8.02 s (1 of 3 runs)",
        "edge-1 loads data 2.0 × slower (1 of 3 runs)",
    )


def test_a_run_of_twice_as_many_iterations_is_longer_whatever_those_of_both_say() -> None:
    longer = run("b", iteration_s=drawn(1, 1.0, 0.2).repeat(2))
    makespan = by_metric(alone(run("a", iteration_s=drawn(0, 1.0, 0.2)), longer))[Metric.MAKESPAN]
    assert makespan.differs and makespan.interval.low > 0


def test_what_a_library_sent_is_not_known_and_no_zero() -> None:
    one, other = (run(name, iteration_bytes=np.full(50, np.nan)) for name in "ab")
    sent = by_metric(alone(one, other))[Metric.BYTES]
    assert (sent.before, sent.after, sent.differs) == (None, None, None)


def test_one_run_is_no_comparison() -> None:
    with pytest.raises(InputError, match="name another archive"):
        alone(run("a"))


def test_iterations_add_up_to_the_run() -> None:
    made = virtual_world.run(Allreduce, size=4, seed=2, iterations=9, noise=0.1)
    seconds, sent = iterations_of(made.trace)
    assert len(seconds) == 9
    assert seconds.sum() <= run_s(made.trace) <= seconds.sum() * 1.01
    assert sent.sum() == pytest.approx(
        sum(made.spans(rank)["nbytes"][made.spans(rank)["phase"] == 10].sum() for rank in range(4))
    )


def test_bytes_of_groups_are_of_the_iterations_that_average_in_them() -> None:
    """Two groups of three in each iteration: messages are numbered by groups, twice as many as iterations."""
    made = virtual_world.run(Prague, size=6, seed=2, iterations=9)
    _, sent = iterations_of(made.trace)
    of_all = sum(made.spans(rank)["nbytes"][made.spans(rank)["phase"] == Phase.SEND].sum() for rank in range(6))
    assert 0.75 * of_all < sent.sum() <= of_all  # groups that are left behind the last iteration are of none


def test_accuracies_are_in_order_of_time() -> None:
    lines = [SimpleNamespace(elapsed_s=s, accuracy=a) for s, a in ((2.0, 0.5), (1.0, None), (1.0, 0.4), (2.0, 0.5))]
    assert accuracies_of(lines) == ((1.0, 0.4), (2.0, 0.5))


@pytest.fixture(scope="module")
def archives(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Path]:
    folder = tmp_path_factory.mktemp("compared")
    kinds = {"ring": "allreduce", "local": "localsgd"}
    made = {
        name: simulated_scenario.scenario(folder / name, iterations=12, strategy=strategy)
        for name, strategy in kinds.items()
    }
    return {name: simulated_scenario.simulated(path, shapes_only=True).path for name, path in made.items()}


def test_the_option_knows_every_metric() -> None:
    assert tuple(metric.value for metric in Metric) == METRICS


def test_the_command(archives: dict[str, Path]) -> None:
    done = said("compare", archives["ring"], archives["local"])
    assert done.code == 0, done.err
    assert "local-archive (1 run) beside ring-archive (1 run)" in done.out
    assert "Set differently: strategy: allreduce -> localsgd" in done.out
    assert "Culprits of ring-archive: none" in done.out
    assert "exposed propagate" in done.out


def test_hosts_and_links_that_were_asked_for_otherwise_are_told(tmp_path: Path) -> None:
    slower = {"compute": {"method": "sleep", "cores": 0.1, "factors": {"cloud-1": 2}}}
    made = [simulated_scenario.scenario(tmp_path / "now", iterations=12),
            simulated_scenario.scenario(tmp_path / "then", iterations=12, emulation=slower)]  # fmt: skip
    network = made[1] / "network.yaml"
    network.write_text(network.read_text().replace("50mbit", "20mbit"))
    archives = [simulated_scenario.simulated(path, shapes_only=True).path for path in made]
    told = json.loads(said("compare", *archives, "--json").out)["contrasts"][0]["settings"]
    assert told == {
        "host cloud-1": ["0.1 of a core", "0.05 of a core"],
        **{
            f"link {link}": ["50.0 Mbit/s, 5.00 ms", "20.0 Mbit/s, 5.00 ms"]
            for link in ("cloud-1 -> edge-1", "edge-1 -> edge-2", "edge-2 -> cloud-1")  # those of the ring
        },
    }


def test_a_trace_that_is_not_there_is_told(archives: dict[str, Path], tmp_path: Path) -> None:
    torn = tmp_path / "torn"
    shutil.copytree(archives["ring"], torn)
    gone = min((torn / "traces").iterdir())
    gone.unlink()
    shown = " ".join(said("compare", archives["ring"], torn).out.split())
    assert f"- torn: traces are not whole, those of {gone.stem} (none): figures are of what is left." in shown


def test_the_command_on_one_run_twice(archives: dict[str, Path], tmp_path: Path) -> None:
    ring, again = archives["ring"], tmp_path / "again"
    shutil.copytree(ring, again)
    once = said("compare", "--group", f"now={ring},{ring}", "--group", f"then={again}")
    assert once.code == 2 and "a run is named twice, and would count as two" in once.err
    alike = said("compare", "--group", f"now={ring}", "--group", f"now={again}")
    assert alike.code == 2 and "two have one name" in alike.err
    both = f"{ring},{again}"
    shown = said("compare", "--group", f"now={both}", "--group", f"then={both}", "--metric", "iteration")
    assert "then (2 runs) beside now (2 runs)" in shown.out
    assert "iteration: the same in every one of the runs." in shown.out
    found = json.loads(said("compare", ring, ring, "--metric", "bytes", "--json").out)
    assert [each["differs"] for each in found["contrasts"][0]["differences"]] == [False]


@pytest.mark.parametrize("training", [7, {"batch_sizes": "many"}])
def test_the_command_on_a_damaged_archive(archives: dict[str, Path], tmp_path: Path, training: object) -> None:
    damaged = tmp_path / "damaged"
    shutil.copytree(archives["ring"], damaged)
    run_json = json.loads((damaged / "run.json").read_text())
    run_json["facts"]["training"] = training
    (damaged / "run.json").write_text(json.dumps(run_json))
    done = said("compare", archives["ring"], damaged)
    assert done.code == 1
    assert re.fullmatch(r"e2c-dl: .*damaged: run\.json: facts\.training.*\n", done.err)


def test_the_command_told_nonsense(archives: dict[str, Path]) -> None:
    ring = archives["ring"]
    assert said("compare", ring).err == "e2c-dl: a comparison needs two runs at least; name another archive\n"
    assert "write NAME=DIR,DIR" in said("compare", "--group", "now").err
    assert "exclude each other" in said("compare", ring, "--group", f"now={ring}").err
