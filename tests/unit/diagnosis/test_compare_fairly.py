"""What a comparison must not say: intervals that leave out what varies, less work as if it were faster, unlike work."""

import io
import json
import shutil
from pathlib import Path

import pytest
import simulated_scenario
from commands import said
from compared import alone, by_metric, drawn, run
from rich.console import Console

from e2c_dl.diagnosis.comparing.compare import Metric, compare
from e2c_dl.diagnosis.comparing.culprits import culprits_in_words
from e2c_dl.diagnosis.comparing.figures import Culprit, Group
from e2c_dl.diagnosis.model import Part
from e2c_dl.report.comparison import summary


def test_one_run_beside_several_has_no_interval_as_runs_may_differ() -> None:
    several = Group(name="many", runs=tuple(run(f"b{i}", seed=i, iteration_s=drawn(i, 1.0 + i, 0.01)) for i in (2, 3)))
    found = by_metric(compare([Group(name="one", runs=(run("a", iteration_s=drawn(1, 1.0, 0.01)),)), several]))
    for metric in (Metric.MAKESPAN, Metric.ITERATION):
        assert (found[metric].interval, found[metric].differs) == (None, None)
        assert found[metric].relative == pytest.approx(2.5, abs=0.1)


def test_one_virtual_run_a_side_by_other_seeds_says_what_its_intervals_leave_out() -> None:
    assert alone(run("a"), run("b")).limitations == ()
    (said_of,) = alone(run("a"), run("b", seed=2)).limitations
    assert said_of == "One run of a or b: how much another run of the same differs is in no interval."


def test_a_run_that_broke_off_has_no_makespan() -> None:
    found = alone(run("a"), run("b", iterations=10, finished=False))
    makespan = by_metric(found)[Metric.MAKESPAN]
    assert (makespan.before, makespan.after, makespan.differs) == (50.0, None, None)
    assert by_metric(found)[Metric.ITERATION].after == 1.0
    assert any("it has no makespan" in each for each in found.limitations)


def test_wrong_clocks_tell_no_times_that_span_hosts() -> None:
    found = alone(run("a"), run("b", mistimed_s=100.0, accuracies=((1.0, 0.5),)))
    told = {metric: each.after for metric, each in by_metric(found).items()}
    assert told[Metric.MAKESPAN] is None and told[Metric.ITERATION] is None and told[Metric.BYTES] == 1e6
    assert any(each.startswith("b: messages arrive up to 100 s before") for each in found.limitations)


def test_ranks_at_their_own_pace_are_told() -> None:
    (line,) = alone(run("a"), run("b", most_iterations=62)).limitations
    assert line == "b: ranks trained 50 to 62 iterations: its iterations, and their bytes, are the first 50 of each."


def test_culprits_that_only_hold_up_or_stalled_besides_and_groups() -> None:
    def told(**known: object) -> tuple[str, ...]:
        culprit = Culprit(**{"element": "a -> b", "part": Part.DELAY, "slowdown": 1.0, **known})
        return culprits_in_words(Group(name="a", runs=(run("a", culprits=(culprit,)),)))

    assert told() == ("a -> b delivers later",)
    assert told(part=Part.RATE, slowdown=2.0, stalled_s=3.2) == (
        "a -> b carries data 2.0 × slower and stalled for 3.20 s",
    )
    many = told(element="5 hosts of edge", part=Part.COMPUTE, slowdown=2.0, many=True)
    assert many == ("5 hosts of edge compute 2.0 × slower",)


@pytest.mark.parametrize("name", ["a[fast]", "x[/y]"])
def test_names_with_brackets_are_names(name: str) -> None:
    console = Console(width=120, record=True, file=io.StringIO())
    console.print(summary(alone(run("b"), run(name, states_s={}))))
    console.print(summary(alone(run("b", states_s={name: {}}), run("c", states_s={name: {}}))))
    text = console.export_text()
    assert text.count(name) >= 4, text


@pytest.fixture(scope="module")
def archives(tmp_path_factory: pytest.TempPathFactory) -> list[Path]:
    """Two of as many samples: in step, and at their own pace."""
    folder = tmp_path_factory.mktemp("compared")
    made = []
    for strategy in ("allreduce", "asyncparameterserver"):
        path = simulated_scenario.scenario(folder / strategy, strategy=strategy, iterations=None, samples=480)
        made.append(simulated_scenario.simulated(path, shapes_only=True).path)
    return made


def test_as_many_samples_are_the_same_work(archives: list[Path]) -> None:
    found = json.loads(said("compare", *archives, "--json").out)
    assert not any("same work" in each for each in found["limitations"]), found["limitations"]
    assert "iterations" not in found["contrasts"][0]["settings"]


def test_runs_of_folders_of_one_name_are_told_apart(archives: list[Path], tmp_path: Path) -> None:
    there = []
    for number, archive in enumerate(archives):
        there.append(tmp_path / str(number) / "run")
        shutil.copytree(archive, there[-1])
    settings = json.loads((there[1] / "run.json").read_text())
    settings["facts"]["training"]["seed"] = 7
    (there[1] / "run.json").write_text(json.dumps(settings))
    groups = [f"{name}={path}" for name, path in zip("ab", there, strict=True)]
    for asked in (there, ["--group", groups[0], "--group", groups[1]]):
        (line,) = (each for each in json.loads(said("compare", *asked, "--json").out)["limitations"] if "seed" in each)
        assert line == f"seed: 1 in {there[0]}, 7 in {there[1]}: they do not do the same work."


@pytest.mark.parametrize("figure", ["cdf", "heatmap"])
def test_a_figure_of_ranks_at_their_own_pace_says_what_it_leaves_out(
    archives: list[Path], tmp_path: Path, figure: str
) -> None:
    in_step, own_pace = (said("plot", path, "--figure", figure, "--out", tmp_path / "f.svg") for path in archives)
    assert (in_step.code, own_pace.code) == (0, 0)
    assert "ranks trained up to" not in in_step.err
    assert f"{archives[1]}: ranks trained up to " in own_pace.err and "as many as the slowest did" in own_pace.err
