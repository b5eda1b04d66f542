"""The comparison of systems: its environments are scenarios, its trials are made once, and its tables say what came."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import pytest
from click.testing import CliRunner

from benchmarks.systems import beside, campaign, environments, live, table, tables
from benchmarks.systems.__main__ import main, missed, page
from benchmarks.systems.campaign import Done, asked_for, made
from benchmarks.systems.environments import DLION
from benchmarks.systems.published import RATIOS
from benchmarks.systems.tables import Results, comparison, fullest, recorded, told_apart
from benchmarks.systems.trial import EXPERIMENT, Asked, Ran, experiment_files
from e2c_dl.archive.read import open_archive
from e2c_dl.campaign.predicting.advice.ground import Ground
from e2c_dl.campaign.simulated import SimulationRequest
from e2c_dl.campaign.simulated import run as simulated
from e2c_dl.cli.telling.console import open_console
from e2c_dl.scenario.load import load


def of(environment: environments.Environment) -> Ground:
    files = {**experiment_files(), **environment.files()}
    return Ground(name="systems", files=files, total_samples=0, real=True)


def came(system: str, reached_s: float | None, seed: int = 1, environment: str = "compute") -> Ran:
    sent = None if reached_s is None else 5_000_000
    return Ran(
        asked=Asked(system=system, environment=environment, seed=seed), reached_s=reached_s, accuracy=0.5,
        bytes_to_target=sent, iterations=(10, 12), computing=(0.5, 0.75), links={"0 1": 12.5}, took_s=2.0,
    )  # fmt: skip


def test_the_experiment_is_one_of_the_environments() -> None:
    shipped = load(EXPERIMENT)
    with of(environments.BOTH).unpacked() as (rendered, _):
        assert rendered.topology == shipped.topology
        assert rendered.compute == shipped.compute
        assert rendered.schedules == shipped.schedules


@pytest.mark.parametrize("environment", environments.ALL.values(), ids=lambda each: each.name)
def test_every_environment_is_a_scenario(environment: environments.Environment) -> None:
    with of(environment).unpacked() as (scenario, _):
        workers = len(environment.layers())
        assert len(scenario.topology.hosts) == workers
        assert len(scenario.topology.links) == workers * (workers - 1)
        assert bool(scenario.schedules.links) == environment.changing
        assert bool(scenario.schedules.compute) == (environment.changing or environment.now_and_then is not None)


def test_one_iteration_in_as_many_as_workers_is_slow_by_chance() -> None:
    by_chance = environments.ALL["16, 6x slower by chance"]
    with of(by_chance).unpacked() as (scenario, _):
        assert set(scenario.schedules.compute) == {host.name for host in scenario.topology.hosts}
    assert len(by_chance.layers()) == 16


def test_ratios_of_papers_stand_beside_those_of_trials() -> None:
    tried = {"Prague": 10.0, "all-reduce": 30.0}
    results = Results([came(name, at_s, environment="16, one 5x slower") for name, at_s in tried.items()])
    assert "| Prague over all-reduce | 16, one 5x slower | 3 (10 s, 30 s) | 4.4 (ASPLOS'20) |" in page(results)
    assert "Beside published" not in page(Results([came("AD-PSGD", 20.0)]))
    names = {each.name for each in table.systems()}
    assert all({each.system, each.over} <= names and each.environment in environments.ALL for each in RATIOS)


def test_papers_of_sixteen_workers_are_tried_against_those_that_they_name() -> None:
    trials = asked_for(["sixteen"], 1)
    assert len(trials) == 5 * len(environments.PAPERS)
    assert {asked.system for asked in trials} == {"all-reduce", "parameter server", "AD-PSGD", "Hop", "Prague"}


def test_a_section_has_those_alone_that_were_tried_there() -> None:
    homogeneous, wan = (came("Gaia", 20.0, environment=name) for name in ("homogeneous", "WAN 15x"))
    told = page(Results([homogeneous, wan, came("Hop", 9.0, environment="homogeneous")]))
    dlion, data_centres = told.split("## Data centres")
    assert "| Hop | 9 s" in dlion
    assert "| Gaia | 20 s" in data_centres
    assert "Hop" not in data_centres


def test_cells_of_unlike_seeds_say_so() -> None:
    trials = [came("Hop", 20.0), came("Hop", 30.0), came("Ako", 9.0), came("Ako", 8.0), came("AD-PSGD", 7.0)]
    found = Results([*trials, came("Hop", 9.0, environment="network"), came("Hop", 8.0, environment="network")])
    told = tables.seeds(found, [environments.ALL["compute"]])
    assert told == "Seeds of each cell: 2, but of AD-PSGD 1."
    assert tables.seeds(found, [environments.ALL["network"]]) == "Seeds of each cell: 2."
    assert "An empty cell was not run" in page(found)
    assert found.fewest_seeds == 1


def test_tables_are_made_of_what_there_is(tmp_path: Path) -> None:
    file = tmp_path / "trials.jsonl"
    Done(file).keep(came("AD-PSGD", 20.0))
    told = CliRunner().invoke(main, ["--made", "--into", str(file)])
    assert "| AD-PSGD | 20 s, 50%" in told.output
    assert "missed: DLion was not tried" in told.output


def test_layers_change_places_and_come_back() -> None:
    dynamic = environments.ALL["dynamic"]
    assert [dynamic.factor("cloud", phase) for phase in range(4)] == [1, 2, 4, 1]
    assert [dynamic.rate("cloud", "edge", phase) for phase in range(3)] == [20, 35, 20]


def test_every_strategy_takes_part() -> None:
    from e2c_dl import strategies

    assert {each.strategy for each in table.systems()} == set(strategies.names())
    for each in table.systems():
        strategies.load(each.strategy)(**each.settings)
    assert len({each.name for each in table.systems()}) == len(table.systems())
    assert {each.part_of for each in table.systems()} - {""} <= {each.name for each in table.systems()}


def test_what_was_made_is_not_made_again(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    file, told = tmp_path / "trials.jsonl", []
    trials = [Asked(system="AD-PSGD", environment="compute", seed=seed) for seed in (1, 2, 3)]
    monkeypatch.setattr(campaign, "ran", lambda _files, asked: replace(came("", 20.0), asked=asked))

    def make(asked: list[Asked]) -> Done:
        done = Done(file)
        made(asked, done, workers=1, scheduler=None, tell=lambda one, *_: told.append(one.asked.seed))
        return done

    make(trials[:2])
    with file.open("a") as torn:
        torn.write('{"code": "1234", "asked": {"sys')
    assert set(make(trials).trials) == set(trials)
    assert told == [1, 2, 3]


def test_what_other_code_made_does_not_count(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    file = tmp_path / "trials.jsonl"
    Done(file).keep(came("AD-PSGD", 20.0))
    assert len(Done(file).trials) == 1
    monkeypatch.setattr(campaign.rooms, "hashes", lambda names: dict.fromkeys(names, "another"))
    assert (len(Done(file).trials), Done(file).of_other_code) == (0, 1)


def test_what_other_settings_made_does_not_count_whatever_its_fields(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    file = tmp_path / "trials.jsonl"
    Done(file).keep(came("AD-PSGD", 20.0))
    file.write_text(file.read_text().replace('"curve"', '"of_an_older_version"'))
    monkeypatch.setattr(environments, "CORES", 0.5)
    assert (len(Done(file).trials), Done(file).of_other_code) == (0, 1)
    monkeypatch.undo()
    file.unlink()
    Done(file).keep(came("AD-PSGD", 20.0))
    changed = {**experiment_files(), "profile.json": b"{}"}
    monkeypatch.setattr(campaign, "experiment_files", lambda: changed)
    assert (len(Done(file).trials), Done(file).of_other_code) == (0, 1)


def test_parts_of_a_system_are_tried_apart() -> None:
    own = {each.name for each in table.systems() if each.part_of}
    assert {asked.system for asked in asked_for(["parts"], 1)} == own
    assert not {asked.system for asked in asked_for(["environments", "wan", "bandwidth"], 1)} & own


def test_a_median_over_seeds_of_which_most_failed_is_none_that_was_reached() -> None:
    results = Results([came("AD-PSGD", at_s, seed) for seed, at_s in enumerate((30.0, None, None))])
    assert results.median_s("AD-PSGD", "compute") == math.inf
    assert results.median_s("AD-PSGD", "network") is None
    assert "| AD-PSGD | -, 50% |" in comparison(results, [environments.ALL["compute"]])


def test_systems_are_told_apart_by_ranges_that_do_not_overlap() -> None:
    fast = [came("AD-PSGD", at_s, seed) for seed, at_s in enumerate((10.0, 12.0))]
    apart = [came("all-reduce", at_s, seed) for seed, at_s in enumerate((13.0, 20.0))]
    alike = [came("parameter server", at_s, seed) for seed, at_s in enumerate((11.0, 20.0))]
    assert told_apart(Results([*fast, *apart]), "compute") == 1.0
    assert told_apart(Results([*fast, *alike]), "compute") == 0.0
    assert told_apart(Results(fast[:1]), "compute") is None


def test_the_fullest_link_is_the_one_that_carries_most_of_what_it_can() -> None:
    ran = replace(came("AD-PSGD", 20.0, environment="network"), links={"0 1": 16.0, "4 5": 8.0})
    assert fullest(ran) == ("4 5", 0.4)  # 50 and 20 Mbit/s
    assert fullest(replace(ran, asked=replace(ran.asked, environment="dynamic")))[1] == pytest.approx(16 / 35)
    assert recorded(ran)["fullest_link"] == "4 5"


def test_tables_have_what_was_tried_alone() -> None:
    text = page(Results([came("AD-PSGD", 20.0, environment=name) for name in ("homogeneous", "compute")]))
    assert "| system | homogeneous | compute |\n" in text
    assert "Data centres" not in text
    assert "all-reduce" not in text


def test_what_was_not_compared_is_missed_and_so_is_a_target_that_nobody_reached() -> None:
    everybody = ("DLion", "full exchange", "Ako", "Gaia", "Hop")

    def found(**times: float | None) -> list[str]:
        reached = {**dict.fromkeys(everybody, 50.0), "DLion": 20.0, **times}
        return missed(Results([came(name, at_s, 1, env.name) for name, at_s in reached.items() for env in DLION]))

    assert found() == []
    assert found(Ako=19.0)[0] == "homogeneous: DLion 20 s, Ako 19 s"
    assert len(found(DLion=None, **dict.fromkeys(everybody[1:]))) == 4 * len(DLION)
    alone = missed(Results([came("DLion", 20.0, 1, environment.name) for environment in DLION]))
    assert alone[0] == "homogeneous: DLion and full exchange were not both tried"


def test_where_the_bar_is_missed_the_page_has_what_traces_say() -> None:
    times = {"DLion": 20.0, "full exchange": 38.0, "Ako": 10.0, "Gaia": 30.0, "Hop": 20.0}
    told = page(Results([came(name, at_s, environment="compute") for name, at_s in times.items()]))
    _, why = told.split("## Where the bar is missed")
    assert "* compute: DLion 20 s, full exchange 38 s. DLion's ranks compute 50% - 75% of the time, in 10 - 12" in why
    assert "2.3 times shorter at most" in why
    assert "* compute: DLion 20 s, Ako 10 s." in why
    assert "Hop" not in why
    assert "Where the bar" not in page(Results([came("DLion", 20.0)]))


def test_without_its_subject_the_bar_is_missed() -> None:
    assert missed(Results([came("all-reduce", 20.0)])) == ["DLion was not tried in its environments"]


def small(folder: Path, monkeypatch: pytest.MonkeyPatch, **accuracies: tuple[float, float]) -> live.Beside:
    """Of systems whose accuracies are (live, virtual), all made; DDP's is 0.2."""

    def made(world: int) -> Callable[[Asked], Ran]:
        def one(asked: Asked) -> Ran:
            accuracy = accuracies.get(asked.system, (0.2, 0.2))[world]
            return Ran(asked=asked, curve=((10.0, accuracy),), accuracy=accuracy, iterations=(20, 20, 20))

        return one

    monkeypatch.setattr(live, "_MADE", {world: made(place) for place, world in enumerate(live.WORLDS)})
    found = live.Beside(folder / "trials.jsonl", list(accuracies))
    found.made(lambda *_: None)
    return found


def test_live_and_virtual_stand_in_one_table_and_ddp_beside_what_stands_for_it(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    come = small(tmp_path, monkeypatch, **{"Ako": (0.5, 0.6), "all-reduce": (0.3, 0.4)})
    assert beside.missed(come) == []
    assert "| torch DDP (gloo) | -, 20%, 2 /s | -, 40%, 2 /s |" in beside.table(come)
    assert "| Ako | -, 50%, 2 /s | -, 60%, 2 /s |" in beside.table(come)
    assert beside.figure(come, tmp_path).stat().st_size > 0
    assert not live.Beside(tmp_path / "trials.jsonl", ["Ako"]).left


def test_another_order_live_is_told(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    come = small(tmp_path, monkeypatch, **{"Ako": (0.2, 0.6), "all-reduce": (0.3, 0.4)})
    assert missed(Results([]), come)[1:] == ["live: all-reduce, Ako; virtual: Ako, all-reduce"]


def test_a_live_run_that_failed_is_told_and_tried_again(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    come = small(tmp_path, monkeypatch, Ako=(0.5, 0.6))
    failing = live.Beside(tmp_path / "others.jsonl", ["Ako"])
    monkeypatch.setattr(live, "_MADE", dict.fromkeys(live.WORLDS, lambda asked: Ran(asked=asked, problem="no room")))
    failing.made(lambda *_: None)
    assert len(failing.left) == 3
    assert beside.missed(failing)[0] == "torch DDP (gloo), live: no room"
    assert not come.left


def test_an_archive_is_read_as_a_trial_is(tmp_path: Path) -> None:
    scenario = live.written(tmp_path / "scenario", table.system("all-reduce"), seconds=9.0)
    request = SimulationRequest(scenario=scenario, archive=tmp_path / "archive")
    asked = Asked(system="all-reduce", environment=environments.SMALL.name, seed=live.SEED)
    told = live.told(asked, open_archive(simulated(request, open_console(quiet=True))))
    ((at_s, accuracy),) = told.curve
    assert 7 < at_s < 9
    assert 0.05 < accuracy == told.accuracy < live.TARGET
    assert told.bytes_to_target is None
    assert len(set(told.iterations)) == 1
    assert all(0.1 < share < 0.2 for share in told.computing)


def test_a_system_that_is_not_there_is_told() -> None:
    refused = CliRunner().invoke(main, ["--part", "live", "--system", "DLyon"])
    assert refused.exit_code == 2
    assert "--system 'DLyon': there is none of that name; write one of full exchange, DLion," in refused.output
