"""What plain `e2clab deploy` left becomes an archive that says no more than is known, and stays as it is."""

from __future__ import annotations

import json
import tarfile
from datetime import datetime
from pathlib import Path
from typing import Any

import pytest
from msgspec import structs
from planted_secrets import KINDS, forms
from simulated_scenario import Quiet, scenario

from e2c_dl.archive import layout
from e2c_dl.archive.host_records import HostRecords
from e2c_dl.archive.read import open_archive
from e2c_dl.archive.records import Deployed
from e2c_dl.archive.verify import verify
from e2c_dl.campaign import plain_records
from e2c_dl.campaign import simulated as simulation
from e2c_dl.campaign.plain import collect_plain
from e2c_dl.campaign.simulated import SimulationRequest
from e2c_dl.campaign.walk import walk
from e2c_dl.diagnosis.diagnose import read_report
from e2c_dl.emulation.measuring.fidelity import LinkFidelity
from e2c_dl.emulation.measuring.measured import Measured
from e2c_dl.errors import E2cDlError, InputError
from e2c_dl.report.verdict import verdict_of
from e2c_dl.scenario.load import load

ENDED_S = 1764000000.0
NAME = "20261122-101500"
EMULATION: dict[str, Any] = {
    "compute": {"method": "sleep", "cores": 0.5, "factors": {"edge.*": 2}},
    "injected": {"seed": 1, "links": [{"src": "edge-1", "dst": "edge-2", "rate_factor": 0.5}]},
}
LOG = """\
2026-11-22 10:15:01,000 - enoslib.infra.enos_g5k.g5k_api_utils - INFO - Job 1234567 on rennes: no schedule estimate
2026-11-22 10:15:06,000 - enoslib.infra.enos_g5k.g5k_api_utils - INFO - Job 1234567 on rennes: no schedule estimate
2026-11-22 10:20:00,250 - e2clab.experiment - INFO - [E2C,EXP] export SOME_TOKEN={secret}
"""


def traced(source: Path, into: Path) -> Path:
    """The hosts' directories of ``source``, as they are before anything is collected."""
    run = simulation.Simulation(
        request=SimulationRequest(scenario=source, archive=into, shapes_only=True), console=Quiet()
    )
    assert walk(simulation.STEPS[:3], run) is None
    run.the_archive.let_go()
    return into / layout.HOSTS


@pytest.fixture
def source(tmp_path: Path) -> Path:
    return scenario(tmp_path / "s", emulation=EMULATION)


@pytest.fixture
def output(tmp_path: Path, source: Path) -> Path:
    return deployed(tmp_path, source)


def deployed(tmp_path: Path, source: Path) -> Path:
    """E2Clab's folder of a run of ``source``, whose workers said nothing of links and were not paced."""
    folder = source / NAME
    (folder / "network-validate/edge-edge").mkdir(parents=True)
    (folder / "network-validate/edge-edge/edge-1.fpingout").write_text("198.19.0.11 : 0.02 0.02")
    (folder / "e2clab.log").write_text(LOG.format(secret=KINDS["exported"]))
    (folder / layout.HOSTS).mkdir()
    for host in load(source).topology.ranks:
        records = HostRecords(traced_hosts(tmp_path, source) / host.name)
        facts, outcome = records.facts(), records.outcome()
        assert facts is not None and outcome is not None
        compute = structs.replace(facts.compute, speed=None)
        records.write_facts(structs.replace(facts, versions={"torch": "2.1"}, compute=compute))
        records.write_outcome(structs.replace(outcome, ended_s=ENDED_S))
    pack(tmp_path, source, folder)
    return folder


def traced_hosts(tmp_path: Path, source: Path) -> Path:
    there = tmp_path / "traced"
    return there / layout.HOSTS if there.exists() else traced(source, there)


def pack(tmp_path: Path, source: Path, folder: Path) -> None:
    """As the workflow's finalize does."""
    for host in load(source).topology.ranks:
        with tarfile.open(folder / layout.HOSTS / f"{host.service_id}.tar.gz", "w:gz") as file:
            for path in sorted((tmp_path / "traced" / layout.HOSTS / host.name).iterdir()):
                file.add(path, path.name)


def measured(tmp_path: Path, source: Path, *, rate_bps: float, round_trip_s: float) -> None:
    """edge-1 has measured its link to edge-2."""
    loaded = load(source)
    seen = Measured(
        rate_bps=rate_bps, rate_is_floor=False, round_trip_s=round_trip_s, round_trip_spread_s=0.0, pings=21, loss=0.0,
        loss_samples=200,
    )  # fmt: skip
    row = LinkFidelity.of(
        "edge-1", "edge-2", designed=loaded.topology, requested=loaded.emulated_topology(), measured=seen
    )
    HostRecords(traced_hosts(tmp_path, source) / "edge-1").write_links([row.to_json()])


def emulated(tmp_path: Path, source: Path, backend: str, **more: str) -> None:
    """All hosts say that links were emulated by ``backend``, and that they were paced."""
    for host in load(source).topology.ranks:
        records = HostRecords(traced_hosts(tmp_path, source) / host.name)
        facts = records.facts()
        assert facts is not None
        told = Deployed(address="h", data_address="198.19.0.10", data_device="eno1", versions={"e2clab": "3.7.0"},
                        backend=backend, **more)  # fmt: skip
        records.amend_facts(deployed=told, compute=structs.replace(facts.compute, speed=0.25))


def run_of(archive: Path) -> dict[str, Any]:
    return json.loads((archive / layout.RUN).read_text())  # type: ignore[no-any-return]


def contents(folder: Path) -> dict[str, bytes]:
    return {str(path.relative_to(folder)): path.read_bytes() for path in folder.rglob("*") if path.is_file()}


@pytest.fixture(scope="module")
def collected(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, Path]:
    """The scenario's folder and an archive of it, whose links are as E2Clab left them, with secrets in both."""
    folder = tmp_path_factory.mktemp("plain")
    source = scenario(folder / "s", emulation=EMULATION)
    layers = json.loads((source / "layers_services.yaml").read_text())
    planted = {"registry_password": KINDS["registry_password"], "all_tokens": [KINDS["nested"]]}
    layers["layers"][0]["services"].append({"name": "Default"} | planted)
    (source / "layers_services.yaml").write_text(json.dumps(layers))
    output = deployed(folder, source)
    (output / "told.txt").write_text(KINDS["registry_password"])
    collect_plain(output, source, folder / "a")
    return source, folder / "a"


def test_collected_again_it_is_the_same_and_its_input_stays(tmp_path, collected) -> None:
    source, archive = collected
    before = contents(source)
    collect_plain(source / NAME, source, tmp_path / "b")
    assert contents(source) == before
    assert contents(tmp_path / "b") == contents(archive)
    assert verify(archive) == ()


def test_it_says_when_and_as_which_job_and_keeps_what_was_fetched(collected) -> None:
    run = run_of(collected[1])
    assert run["started"].startswith("2026-11-22T10:15:00")
    assert datetime.fromisoformat(run["ended"]).timestamp() == ENDED_S
    assert run["facts"]["jobs"] == [{"site": "rennes", "oar_job_id": "1234567"}]
    assert [host["name"] for host in run["hosts"]] == ["edge-1", "edge-2", "cloud-1", "edge-3"]
    assert (collected[1] / "fetched/network-validate/edge-edge/edge-1.fpingout").is_file()


def test_what_nobody_put_in_force_was_not_requested(collected) -> None:
    """By E2Clab's own rules: nobody was slowed, nothing was injected, and the archive says all of it."""
    run = run_of(collected[1])
    assert run["emulation"]["backend"] == "e2clab" and run["emulation"]["compute"]["method"] == "none"
    assert run["injected"] == {"compute": {}, "links": {}, "faults": []}
    (row,) = [row for row in open_archive(collected[1]).links() if (row["src"], row["dst"]) == ("edge-1", "edge-2")]
    assert row["requested"] == row["designed"]
    said = run["limitations"]
    assert plain_records.AS_APPLIED in said
    assert "not injected, as no link was shaped: edge-1 -> edge-2" in said
    assert any(sentence.startswith("edge-1, edge-2, cloud-1: computed as fast as it could") for sentence in said)


def test_no_secret_of_the_scenario_is_in_it(collected) -> None:
    secrets = {form for kind in ("registry_password", "nested", "exported") for form in forms(KINDS[kind])}
    assert [name for name, data in contents(collected[1]).items() if any(each in data for each in secrets)] == []
    assert "REDACTED" in (collected[1] / "logs/e2clab.log").read_text()


def test_what_workers_put_in_force_was_requested(tmp_path, source, output) -> None:
    emulated(tmp_path, source, "tc")
    pack(tmp_path, source, output)
    collect_plain(output, source, tmp_path / "a")
    run = run_of(tmp_path / "a")
    assert run["versions"] == {"torch": "2.1", "e2clab": "3.7.0"}
    assert [host["data_device"] for host in run["hosts"]] == ["eno1"] * 3
    assert run["emulation"]["backend"] == "tc" and run["emulation"]["compute"]["speed"]["edge-1"] == 0.25
    assert run["injected"]["links"] == {"edge-1 -> edge-2": 0.5}
    assert not [sentence for sentence in run["limitations"] if "applied" in sentence or "computed" in sentence]


def test_what_the_kernel_or_a_host_could_not_do_is_named(tmp_path, source, output) -> None:
    emulated(tmp_path, source, "htb", why="its kernel has no netem (unknown)", failure="tc said no")
    pack(tmp_path, source, output)
    collect_plain(output, source, tmp_path / "a")
    said = run_of(tmp_path / "a")["limitations"]
    assert "links not in force: edge-1, edge-2, cloud-1: tc said no" in said
    assert any("tc needs netem for it, and the kernel has none" in sentence for sentence in said)
    assert "edge-1, edge-2, cloud-1: its kernel has no netem (unknown)" in said


def test_links_that_depart_are_no_run_as_designed(tmp_path) -> None:
    """30 ms asked, 0.02 ms had: nobody is slower than designed, and yet it is another network."""
    source = scenario(tmp_path / "s", emulation={"compute": {"method": "sleep"}})
    output = deployed(tmp_path, source)
    measured(tmp_path, source, rate_bps=889e6, round_trip_s=0.00002)
    pack(tmp_path, source, output)
    collect_plain(output, source, tmp_path / "a")
    left = open_archive(tmp_path / "a")
    assert any(sentence.startswith("link edge-1 -> edge-2: 889 Mbit/s measured") for sentence in left.run.limitations)
    assert "not the one that was designed" in verdict_of(read_report(left), links_off=1).headline
    page = (tmp_path / "a" / layout.REPORT_HTML).read_text()
    assert "1 link measured otherwise than requested" in page and "nothing was seen to depart" not in page


def test_a_failure_leaves_no_half_archive(tmp_path, source, output) -> None:
    for path in (output / layout.HOSTS).iterdir():
        path.write_bytes(b"no archive")
    with pytest.raises(E2cDlError):
        collect_plain(output, source, tmp_path / "a")
    assert not (tmp_path / "a").exists()


def test_of_several_configurations_each_is_collected(tmp_path, source, output) -> None:
    for conf in ("small", "large"):
        (output / conf).mkdir()
    (output / layout.HOSTS).rename(output / "small" / layout.HOSTS)
    with pytest.raises(InputError, match="name one of its configurations: .*small"):
        collect_plain(output, source, tmp_path / "a")
    collect_plain(output / "small", source, tmp_path / "a")
    run = run_of(tmp_path / "a")
    assert run["facts"]["app_conf"] == "small" and run["started"].startswith("2026-11-22T10:15:00")
    assert (tmp_path / "a/logs/e2clab.log").is_file()


PROGRAMS = [("Horovod", "Horovod"), ("TorchTraining", "TorchTraining"), ("FLServer", "FLClient")]


def written(source: Path, first: str, second: str) -> Path:
    """A scenario whose hosts train by a program of their own; E2Clab's folder in it."""
    folder = source / NAME
    (folder / "edge-1").mkdir(parents=True)
    (source / "layers_services.yaml").write_text(
        f"environment: {{g5k: {{cluster: a}}}}\nlayers:\n- {{name: cloud, services: [{{name: {first}, "
        f"registry_password: {KINDS['registry_password']}}}]}}\n- {{name: edge, services: [{{name: {second}}}]}}\n"
    )
    (source / "network.yaml").write_text("networks: [{src: edge.*, dst: cloud.*, delay: 5ms, rate: 50mbit}]\n")
    (source / "workflow.yaml").write_text(f"- {{hosts: 'edge.{second.lower()}.*', launch: []}}\n")
    (source / "emulation.yaml").write_text("compute: {factors: {edge.*: 2}}\n")
    (folder / "e2clab.log").write_text(LOG.format(secret=KINDS["exported"]))
    (folder / "e2clab.err").write_text("")
    (folder / "edge-1/results.csv").write_text(f"accuracy\n0.9\n{KINDS['registry_password']}\n")
    return folder


@pytest.mark.parametrize("services", PROGRAMS)
def test_what_a_program_of_the_users_left_is_an_archive_too(tmp_path, services) -> None:
    """Of it there is what its workflow fetched; twice the same, its input left alone, and no secret in it."""
    source = tmp_path / "s"
    folder = written(source, *services)
    before = contents(source)
    for name in ("a", "b"):
        collect_plain(folder, source, tmp_path / name)
    assert contents(source) == before and contents(tmp_path / "a") == contents(tmp_path / "b")
    assert verify(tmp_path / "a") == ()
    run = run_of(tmp_path / "a")
    assert (run["outcome"], run["testbed"]) == ("finished", "as E2Clab reserved it")
    assert run["facts"]["jobs"] == [{"site": "rennes", "oar_job_id": "1234567"}]
    assert run["facts"]["program"] == load(source).program
    assert (tmp_path / "a/fetched/edge-1/results.csv").read_text().startswith("accuracy\n0.9\n")
    for said in (plain_records.AS_APPLIED, "edge-1: not slowed: plain E2Clab gives no program a CPU quota"):
        assert said in run["limitations"]
    assert not (tmp_path / "a/report.json").exists()
    secrets = forms(KINDS["registry_password"]) | forms(KINDS["exported"])
    assert [name for name, data in contents(tmp_path / "a").items() if any(each in data for each in secrets)] == []


def test_what_is_wrong_with_a_run_of_a_program_is_said(tmp_path) -> None:
    source = tmp_path / "s"
    folder = written(source, "Horovod", "Horovod")
    (folder / "e2clab.err").write_text("Traceback\nE2clabWorkflowError: the launch failed\n")
    collect_plain(folder, source, tmp_path / "a")
    run = run_of(tmp_path / "a")
    assert run["outcome"] == "failed" and "the launch failed" in run["what_happened"][0]
    with pytest.raises(InputError, match=r"has no e2clab\.log; name the folder that E2Clab made"):
        collect_plain(source, source, tmp_path / "b")
    assert not (tmp_path / "b").exists()


def test_a_renamed_folder_is_dated_by_its_log(source, output) -> None:
    renamed = output.rename(source / "kept")
    assert plain_records.started(renamed) == _local("2026-11-22 10:15:01")
    assert plain_records.ended(renamed, ()) == _local("2026-11-22 10:20:00")


def _local(text: str) -> str:
    return datetime.fromisoformat(text).astimezone().isoformat(timespec="seconds")
