"""The experiments that ship: each is valid, for E2Clab too, and simulates to an end in which its claim can be seen."""

from __future__ import annotations

import shutil
import subprocess
import sys
from pathlib import Path

import pytest
import yaml

from e2c_dl.archive.read import ReadArchive, open_archive
from e2c_dl.archive.records import Progress
from e2c_dl.archive.run import Outcome
from e2c_dl.campaign.simulated import SimulationRequest, run
from e2c_dl.scenario.load import load, local_problems, problems
from e2c_dl.trace.changes import Change, ChangeInForce

EXPERIMENTS = Path(__file__).parents[3] / "experiments"
FOLDERS = sorted(folder for folder in EXPERIMENTS.iterdir() if (folder / "layers_services.yaml").exists())
LONGEST = "dlion-micro-clouds"
NEW = ("dynamic-bandwidth", "partition", "shared-uplink", "throttled-edge")


class Silent:
    """A console that says nothing."""

    def begun(self, run_id: str, archive: Path) -> None: ...

    def step(self, name: str, what: str) -> None: ...

    def done(self, name: str, seconds: float) -> None: ...

    def failed(self, name: str, why: str) -> None: ...

    def say(self, line: str) -> None: ...

    def progress(self, progress: Progress) -> None: ...


@pytest.fixture(scope="module")
def simulated(tmp_path_factory: pytest.TempPathFactory) -> dict[str, ReadArchive]:
    """What shapes alone leave of each experiment; of the longest, a twelfth, as no test here reads more of it."""
    path = tmp_path_factory.mktemp("experiments")
    longest = shutil.copytree(EXPERIMENTS / LONGEST, path / "part" / LONGEST)
    layers = (longest / "layers_services.yaml").read_text()
    assert layers.count("seconds: 60 ") == 1
    (longest / "layers_services.yaml").write_text(layers.replace("seconds: 60 ", "seconds: 5 "))
    return {
        folder.name: open_archive(
            run(SimulationRequest(scenario=folder, archive=path / folder.name, shapes_only=True), Silent())
        )
        for folder in (longest if each.name == LONGEST else each for each in FOLDERS)
    }  # fmt: skip


def changes(archive: ReadArchive, what: Change) -> list[ChangeInForce]:
    return [change for change in archive.changes() if change.what == what]


def test_those_of_what_changes_are_there() -> None:
    assert {folder.name for folder in FOLDERS} >= set(NEW)


@pytest.mark.parametrize("folder", FOLDERS, ids=lambda folder: folder.name)
def test_nothing_is_wrong_with_it(folder: Path) -> None:
    assert problems(folder) == ()
    assert local_problems(load(folder), elsewhere=False) == ()


@pytest.mark.parametrize("folder", FOLDERS, ids=lambda folder: folder.name)
def test_e2clab_accepts_its_files(folder: Path) -> None:
    is_valid_conf = pytest.importorskip("e2clab.schemas").is_valid_conf
    for name in ("layers_services", "network", "workflow"):
        assert is_valid_conf(yaml.safe_load((folder / f"{name}.yaml").read_text()), name), name


@pytest.mark.parametrize("folder", FOLDERS, ids=lambda folder: folder.name)
def test_its_page_says_the_command(folder: Path) -> None:
    text = (folder / "README.md").read_text()
    assert f"e2c-dl deploy experiments/{folder.name} artifacts" in text


@pytest.mark.parametrize("name", [folder.name for folder in FOLDERS])
def test_it_simulates_to_an_end(simulated: dict[str, ReadArchive], name: str) -> None:
    assert simulated[name].run.outcome is Outcome.FINISHED
    assert (simulated[name].path / "report.json").is_file()


def test_the_trace_is_what_its_program_writes() -> None:
    folder = EXPERIMENTS / "dynamic-bandwidth"
    written = subprocess.run(
        [sys.executable, folder / "make_trace.py"], capture_output=True, text=True, check=True
    ).stdout  # fmt: skip
    assert written == (folder / "traces" / "cell.csv").read_text()


def test_the_radio_link_takes_on_the_rates_of_the_trace(simulated: dict[str, ReadArchive]) -> None:
    lines = (EXPERIMENTS / "dynamic-bandwidth" / "traces" / "cell.csv").read_text().split()[1:]
    wanted = [float(line.split(",")[1]) * 1e6 for line in lines]
    found = [
        change.value["rate_bps"]
        for change in changes(simulated["dynamic-bandwidth"], Change.LINK)
        if change.whom == "fog-1 -> cloud-1"
    ]
    assert len(found) > 10
    assert found == pytest.approx(wanted[: len(found)])


def test_edge_hosts_throttle_within_twenty_seconds_and_recover(simulated: dict[str, ReadArchive]) -> None:
    archive = simulated["throttled-edge"]
    first = changes(archive, Change.THROTTLE)[0]
    assert first.whom.startswith("edge-")
    assert 10 <= first.in_force_s <= 20
    assert changes(archive, Change.RECOVER)


def test_the_partition_cuts_every_link_between_the_sides_and_ends(simulated: dict[str, ReadArchive]) -> None:
    archive = simulated["partition"]
    edge, rest = ("edge-1", "edge-2"), ("fog-1", "cloud-1")
    between = {f"{a} -> {b}" for a in edge for b in rest} | {f"{b} -> {a}" for a in edge for b in rest}
    found = changes(archive, Change.LINK)
    assert {change.whom for change in found if change.value["down"]} == between
    for whom in between:
        assert not [change for change in found if change.whom == whom][-1].value["down"]


def test_two_hosts_share_the_uplink(simulated: dict[str, ReadArchive]) -> None:
    trace = simulated["shared-uplink"].trace()
    by_name = {rank.host: rank for rank in trace.ranks}
    seconds = (by_name["edge-1"].spans["end_ns"].max() - by_name["edge-1"].spans["start_ns"].min()) / 1e9
    pushed_bits = 2 * 60 * 109_914 * 4 * 8  # both edge hosts, every iteration, all parameters
    assert seconds > pushed_bits / 15e6
