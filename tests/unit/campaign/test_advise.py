"""``e2c-dl advise``: what is tried, how it is ranked, who tries it, and what is refused, in one line."""

from __future__ import annotations

import contextlib
import json
import os
import signal
import socket
import subprocess
import sys
import threading
from dataclasses import replace
from pathlib import Path

import pytest
from commands import said
from simulated_scenario import scenario, simulated

from e2c_dl.archive.read import open_archive
from e2c_dl.campaign.predicting.advice import learning, workers
from e2c_dl.campaign.predicting.advice.candidates import Candidate, candidates
from e2c_dl.campaign.predicting.advice.ground import Ground, of_archive
from e2c_dl.campaign.predicting.advice.trial import Tried
from e2c_dl.campaign.predicting.advice.trial import tried as tried_on
from e2c_dl.campaign.predicting.advice.workers import in_processes, on_cluster
from e2c_dl.errors import InputError
from e2c_dl.scenario.emulation.prices import Prices
from e2c_dl.scenario.load import load
from e2c_dl.scenario.training import MAX_ITERATIONS
from e2c_dl.strategies.batching import CONTROLLERS
from e2c_dl.trace.model import Phase
from e2c_dl.worlds.virtual import ComputeProfile, GradientTimes

PARAMETERS = 109_914


def times(samples: int) -> GradientTimes:
    return GradientTimes(data_s=0.001, forward_s=0.001 * samples, backward_s=(0.002 * samples,))


PROFILE = ComputeProfile(
    model="cnn", dtype="float32", parameters=PARAMETERS, buckets=((0, PARAMETERS),),
    gradients={size: times(size) for size in (8, 16)}, step_s=0.0002, evaluate_s=0.01,
)  # fmt: skip
EMULATION = {
    "compute": {"method": "sleep", "cores": 1.0, "factors": {"edge-2": 3}},
    "prices": {
        "hosts": [{"host": "cloud.*", "per_hour": 36}],
        "links": [{"src": "edge.*", "dst": "cloud.*", "symmetric": True, "per_gb": 10}],
    },
}


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A scenario with one slow host, and prices."""
    return scenario(
        tmp_path_factory.mktemp("advise") / "s", emulation=EMULATION, profile=PROFILE.to_json(), iterations=8,
        learning_rate=0.1,
    )  # fmt: skip


@pytest.fixture(scope="module")
def archive(folder: Path) -> Path:
    return simulated(folder, shapes_only=True).path


@pytest.fixture(scope="module")
def ground(archive: Path) -> Ground:
    return of_archive(open_archive(archive), real=False)


def advised(where: Path, *argv: object):
    told = said("advise", where, "--workers", 1, "--json", *argv)
    assert told.code == 0, told.err
    return json.loads(told.out)


def test_the_grid_has_every_strategy_and_the_scenarios_own_first(folder: Path) -> None:
    training = load(folder).training
    more, total = (
        ["localsgd:period=3,weights=equal,batching=proportional"],
        training.iterations * sum(training.batch_sizes),
    )
    tried = candidates(training, ["edge", "edge", "cloud"], more, total)
    assert [str(each) for each in tried[:2]] == [
        "allreduce",
        "localsgd, period 3, weights equal, batching proportional",
    ]
    assert len(set(tried)) == len(tried)
    assert {each.strategy for each in tried} >= {"adpsgd", "asyncparameterserver", "diloco", "parameterserver"}
    assert {each.batching for each in tried} == {"fixed", "dynamic", "proportional"}
    assert Candidate(strategy="parameterserver", settings=(("server", 2),)) in tried
    assert not any(dict(each.settings).get("period", 0) > training.iterations for each in tried)
    by_time = replace(training, iterations=MAX_ITERATIONS)  # as a budget of seconds has it
    assert candidates(by_time, ["edge", "edge", "cloud"], more, total) == tried


@pytest.mark.parametrize(
    ("asked", "says"),
    [
        ("localsdg", "strategy 'localsdg' does not exist; write localsgd"),
        ("localsgd:perod=3", "there is no setting 'perod'; did you mean 'period'?"),
        ("localsgd:period", "period has no value; write one, such as period=4"),
        ("localsgd:period=three", "period: 'three' is none of its values; write one such as 4"),
        ("localsgd:period=0", "period is 0; write 1 or more"),
        ("dlion:growth_period=5,growth_samples=100,batching=dynamic", "batches of dlion grow"),
        ("adpsgd:batching=dynamc", "batching 'dynamc' does not exist; did you mean 'dynamic'?"),
    ],
)
def test_a_candidate_that_cannot_be_is_refused_in_one_line(folder: Path, asked: str, says: str) -> None:
    with pytest.raises(InputError) as error:
        candidates(load(folder).training, ["edge"] * 3, [asked], 1000)
    assert str(error.value).startswith(f"--try {asked}: ")
    assert says in str(error.value)
    assert CONTROLLERS


def test_the_run_is_foretold_as_it_was_and_slow_hosts_get_less(archive: Path) -> None:
    found = advised(archive, "--seeds", 1)
    measured_s = json.loads((archive / "report.json").read_text())["run_s"]
    own = found["own"]
    assert own["candidate"] == {"strategy": "allreduce", "settings": {}, "batching": "fixed"}
    evaluated_s = 2 * 0.01  # rank 0, while it trained: no candidate does
    assert own["run_s"] == pytest.approx(measured_s - evaluated_s, rel=0.01)
    best = found["ranking"][0]
    assert best["run_s"] <= own["run_s"] / 1.4
    dynamic = next(row for row in found["ranking"] if row["candidate"] == own["candidate"] | {"batching": "dynamic"})
    assert dynamic["run_s"] < own["run_s"]
    assert dynamic["evenly_busy"] > own["evenly_busy"] + 0.05
    assert [row["run_s"] for row in found["ranking"]] == sorted(row["run_s"] for row in found["ranking"])


def test_a_scenario_is_judged_by_its_profile_as_its_run_is(folder: Path, archive: Path) -> None:
    by_run, by_profile = (advised(where, "--seeds", 1)["own"] for where in (archive, folder))
    assert by_run["run_s"] == pytest.approx(by_profile["run_s"], rel=0.01)
    assert by_run["sent_bytes"] == by_profile["sent_bytes"]


def test_money_is_hours_of_hosts_and_gigabytes_of_links(archive: Path) -> None:
    found = advised(archive, "--seeds", 1, "--objective", "cost")
    costs = [row["cost"] for row in found["ranking"]]
    assert costs == sorted(costs)
    own = found["own"]
    assert own["cost"] == pytest.approx(own["run_s"] * 36 / 3600 + own["sent_bytes"] * 2 / 3 / 1e9 * 10, rel=0.01)
    prices = Prices(per_hour={"a": 2.0, "b": 1.0}, per_gb={("a", "b"): 0.5})
    assert prices.cost(1800.0, ["a"], {("a", "b"): 2 * 10**9, ("b", "a"): 10**9}) == 2.0


def test_the_winner_is_written_as_a_scenario_that_runs(archive: Path, tmp_path: Path) -> None:
    told = said("advise", archive, "--workers", 1, "--seeds", 1, "--write-scenario", tmp_path / "best")
    assert told.code == 0, told.err
    assert "as it is: allreduce, place " in told.out
    assert f"e2c-dl simulate {tmp_path / 'best'}" in "".join(told.out.split("\n"))
    winner = advised(archive, "--seeds", 1)["ranking"][0]
    written = load(tmp_path / "best").training
    assert {"strategy": written.strategy, "batching": written.batching} == {
        key: winner["candidate"][key] for key in ("strategy", "batching")
    }
    ran = simulated(tmp_path / "best", shapes_only=True).trace()
    training = [rank.spans[rank.spans["phase"] == Phase.TRAINING] for rank in ran.ranks]
    run_s = (
        max(int(each["end_ns"].max()) for each in training) - min(int(each["start_ns"].min()) for each in training)
    ) / 1e9
    assert run_s == pytest.approx(winner["run_s"], rel=0.05)
    assert said("advise", archive, "--write-scenario", tmp_path / "best").code == 2


def test_processes_and_a_cluster_find_the_same(ground: Ground) -> None:
    distributed = pytest.importorskip("distributed")
    trials = [(Candidate(strategy=name), seed) for name in ("adpsgd", "localsgd") for seed in (0, 1)]

    def found(came) -> list[Tried]:
        return sorted(came, key=lambda each: (each.candidate.strategy, each.seed))

    alone = found(in_processes(tried_on, ground, trials, 1))
    assert all(not each.problem for each in alone)
    assert found(in_processes(tried_on, ground, trials, 2)) == alone
    with distributed.LocalCluster(
        n_workers=1, threads_per_worker=1, processes=False, dashboard_address=None, silence_logs=50
    ) as cluster:
        assert found(on_cluster(tried_on, ground, trials, cluster.scheduler_address)) == alone


def test_a_cluster_without_workers_is_told_in_one_line(ground: Ground, monkeypatch: pytest.MonkeyPatch) -> None:
    distributed = pytest.importorskip("distributed")
    monkeypatch.setattr(workers, "CONNECT_S", 0.5)
    with distributed.LocalCluster(n_workers=0, processes=False, dashboard_address=None, silence_logs=50) as cluster:
        address = cluster.scheduler_address
        with pytest.raises(InputError, match=rf"{address}: it has no worker; start one: dask worker {address}"):
            list(on_cluster(tried_on, ground, [(Candidate(strategy="adpsgd"), 0)], address))


def test_another_program_at_the_schedulers_address_is_told_in_one_line(ground: Ground) -> None:
    pytest.importorskip("distributed")
    with socket.create_server(("127.0.0.1", 0)) as server:
        place = f"127.0.0.1:{server.getsockname()[1]}"

        def answer() -> None:
            connection = server.accept()[0]
            connection.sendall(b"HTTP/1.1 400 Bad Request\r\n\r\n")
            connection.close()

        threading.Thread(target=answer, daemon=True).start()
        with pytest.raises(InputError, match=rf"{place}: nobody answers there: what answers is no scheduler of Dask"):
            list(on_cluster(tried_on, ground, [(Candidate(strategy="adpsgd"), 0)], f"tcp://{place}"))


def test_ctrl_c_ends_all_processes(archive: Path, tmp_path: Path) -> None:
    program = "from e2c_dl.cli.main import main; main()"
    command = [sys.executable, "-c", program, "advise", str(archive), "--workers", "2", "--seeds", "500"]
    pipe = subprocess.PIPE
    environment = {**os.environ, "TMPDIR": str(tmp_path)}
    with subprocess.Popen(command, stdout=pipe, stderr=pipe, text=True, start_new_session=True, env=environment) as run:
        assert run.stderr is not None
        assert any("trying strategies: " in line for line in run.stderr)
        started = members(run.pid)
        os.killpg(run.pid, signal.SIGINT)
        rest = run.communicate(timeout=60)[1]  # read to its end: nobody is left who could write
    assert len(started) > 2
    assert run.returncode == 130, rest
    assert [pid for pid in members(run.pid) if "spawn_main" in started[pid]] == []
    assert [*tmp_path.iterdir()] == []


def members(group: int) -> dict[int, str]:
    """Processes of ``group`` that live -> their command lines."""
    found = {}
    for folder in Path("/proc").glob("[0-9]*"):
        with contextlib.suppress(OSError):  # gone meanwhile
            state, _, its_group = (folder / "stat").read_text().rpartition(")")[2].split()[:3]
            if int(its_group) == group and state != "Z":
                found[int(folder.name)] = (folder / "cmdline").read_text()
    return found


@pytest.mark.parametrize(
    ("argv", "says"),
    [
        (["--scheduler", "tcp://127.0.0.1:1", "--workers", "2"], "--workers and --scheduler exclude each other"),
        (["--scheduler", "nobody"], "missing port number in address 'nobody'; write e.g. tcp://10.0.0.1:8786"),
        (["--objective", "acuracy"], "is not one of"),
        (["--try", "nothing"], "strategy 'nothing' does not exist"),
        (["--objective", "accuracy", "--shapes-only"], "told by real gradients; leave out --shapes-only"),
    ],
)
def test_what_is_wrong_is_one_line(archive: Path, argv: list[str], says: str) -> None:
    told = said("advise", archive, *argv)
    assert told.code == 2
    assert says in told.err
    assert "Traceback" not in told.err


def test_a_folder_that_is_neither_archive_nor_scenario_is_told_as_that(tmp_path: Path) -> None:
    (tmp_path / "traces").mkdir()
    told = said("advise", tmp_path)
    assert told.code == 2
    assert f"e2c-dl: {tmp_path}: is no archive (it has no run.json), and no scenario (no layers_serv" in told.err


def test_without_prices_or_torch_the_objective_is_refused(
    tmp_path: Path, archive: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    told = said("advise", scenario(tmp_path / "s"), "--objective", "cost")
    assert told.code == 2
    assert "s: its scenario has no prices; add prices: to its emulation.yaml" in told.err
    monkeypatch.setattr(learning.importlib.util, "find_spec", lambda name: None)
    told = said("advise", archive, "--objective", "accuracy")
    assert told.code == 2
    assert "gradients are to be computed, and torch is not installed; install e2c_dl[train]" in told.err


def test_real_gradients_are_evaluated_as_the_model_that_the_strategy_trains(archive: Path) -> None:
    pytest.importorskip("torch")
    ground = of_archive(open_archive(archive), real=True)
    trials = [(Candidate(strategy=name), 0) for name in ("allreduce", "localsgd")]
    by_strategy = {each.candidate.strategy: each for each in in_processes(tried_on, ground, trials, 1)}
    own, local = by_strategy["allreduce"], by_strategy["localsgd"]
    assert own.problem == local.problem == ""
    assert own.learned is not None
    assert local.learned is not None
    times_s = [at_s for at_s, _ in own.learned.curve]
    assert len(times_s) > 5
    assert times_s == sorted(times_s)
    assert 0 < times_s[0] < times_s[-1] <= own.run_s
    assert own.learned.loss < own.learned.curve[0][1]  # it learns
    assert len(set(own.learned.by_host)) == 1  # every host has the same model
    assert own.learned.by_host[0] == own.learned.accuracy
