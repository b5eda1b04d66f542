"""Plain ``e2clab deploy`` runs the same scenario: its own network step, its own forks; collected afterwards, twice.

Six hosts are more than Ansible's five forks. Of E2Clab's rules each host keeps the last: its workers put all in force.
"""

import subprocess
import sys
from datetime import datetime

import pytest
from planted_secrets import KINDS, forms
from whole_runs import COMMAND, facts, nothing_left, scenario

from e2c_dl.archive.read import open_archive
from e2c_dl.archive.verify import verify
from e2c_dl.emulation.measuring.fidelity import LinkFidelity

pytestmark = [pytest.mark.local, pytest.mark.slow]

# E2Clab's own command line, on hosts of this machine instead of Grid'5000's; no testbed tells their workers anything.
DRIVER = """
import sys
from pathlib import Path
from e2clab.cli import cli
from e2c_dl import resources
from e2c_dl.scenario.load import load
from e2c_dl.testbeds import registry
from e2c_dl.testbeds.base import Told
from e2c_dl.testbeds.e2clab import hosts, upstream
from e2c_dl.emulation.backend import Backend
from e2c_dl.testbeds.namespaces.hosts import NamespaceHosts
from e2c_dl.testbeds.this_machine.hosts import HostSpec
from e2c_dl.testbeds.this_machine import addresses

scenario = load(Path(sys.argv[1]))
run = registry.begin(registry.new_run_id(), scenario=scenario.name, choose_slot=addresses.free_slot)
print("run", run.id, flush=True)
names = scenario.topology.names
testbed = NamespaceHosts(run, [HostSpec(name=name) for name in names], backend=Backend.TC, tcp=scenario.tcp)

def bring_up():
    roles, networks = hosts.roles_and_networks(scenario.topology, testbed.up(), dict.fromkeys(names, Told()), {})
    for host in [host for role in roles.values() for host in role]:  # each role has its own of a host
        host.extra["e2cdl"] |= {"own_emulation": True, "versions": {"e2clab": "3.7.0"}}
    return roles, networks

try:
    provider = upstream.make_provider(bring_up, lambda: None)
    with upstream.patched(directory=Path.cwd(), provider=provider, service_dirs=[resources.layers_services_dir()]):
        cli.main(["deploy", sys.argv[1], sys.argv[2]], prog_name="e2clab", standalone_mode=False)
finally:
    testbed.down()
"""


NETWORK = """\
networks:
- {src: edge.*, dst: edge.*, delay: 0ms, rate: 60mbit}
- {src: edge.*, dst: fog.*, delay: 0ms, rate: 40mbit}
- {src: edge.*, dst: cloud.*, delay: 0ms, rate: 30mbit, symmetric: true}
- {src: fog.*, dst: fog.*, delay: 0ms, rate: 50mbit}
- {src: fog.*, dst: cloud.*, rate: 50mbit, delay: 3ms}
- {src: cloud.*, dst: cloud.*, delay: 0ms, rate: 50mbit}
"""
EMULATION = """\
compute: {method: sleep, cores: 0.1, factors: {edge.*: 2}}
injected:
  seed: 1
  links: [{src: fog-1, dst: fog-2, rate_factor: 0.5}]
"""


@pytest.fixture(scope="module")
def ran(tmp_path_factory, repository):
    """(the scenario's folder, E2Clab's folder in it, the run's id): deployed, trained, finalized."""
    folder = tmp_path_factory.mktemp("plain")
    workflow = repository / "experiments/first-light/workflow.yaml"
    source = scenario(folder / "s", workflow, iterations=4, network=NETWORK, emulation=EMULATION)
    layers = (source / "layers_services.yaml").read_text()
    (source / "layers_services.yaml").write_text(layers.replace("name: Trainer,", "name: Trainer, quantity: 2,"))
    secret = f'ansible.builtin.shell: "export SOME_TOKEN={KINDS["exported"]}; env | grep SOME"'
    prepared = (source / "workflow.yaml").read_text()
    (source / "workflow.yaml").write_text(
        prepared.replace(
            'ansible.builtin.command: {argv: [sleep, "1"]}', f"{secret}\n      vars: {{api_key: {KINDS['nested']}}}"
        )
    )
    (folder / "artifacts").mkdir()
    done = subprocess.run(
        [sys.executable, "-c", DRIVER, str(source), str(folder / "artifacts")],
        cwd=folder, capture_output=True, text=True, check=False, timeout=280,
    )  # fmt: skip
    assert done.returncode == 0, done.stdout + done.stderr
    (output,) = [path for path in source.iterdir() if path.is_dir() and path.name[0].isdigit()]
    return source, output, done.stdout.split("run ")[1].split()[0]


@pytest.fixture(scope="module")
def archive(ran):
    source, output, _ = ran
    path = output.parent / f"{output.name}-archive"
    collected = subprocess.run(
        [*COMMAND, "collect", f"{output}/", str(source)], capture_output=True, text=True, check=False
    )
    assert collected.returncode == 0, collected.stdout + collected.stderr
    return path


def test_it_ends_well_and_leaves_nothing(ran):
    _, output, run_id = ran
    nothing_left(run_id)
    assert (output / "e2clab.err").read_text() == ""


def test_the_archive_says_when_where_and_with_what(ran, archive):
    _, output, _ = ran
    run = facts(archive)
    assert verify(archive) == ()
    assert run["outcome"] == "finished"
    assert run["started"].replace("-", "").replace(":", "").replace("T", "-").startswith(output.name)
    ends = [open_archive(archive).host(host["name"]).outcome().ended_s for host in run["hosts"]]
    assert abs(datetime.fromisoformat(run["ended"]).timestamp() - max(ends)) <= 1
    assert {"e2clab", "e2c_dl", "torch"} <= run["versions"].keys()
    assert [(host["name"], host["data_address"][:7]) for host in run["hosts"]][:1] == [("edge-1", "198.19.")]
    assert run["facts"]["training"]["strategy"] == "allreduce" and run["facts"]["jobs"] == []
    assert len(list((archive / "fetched/network-validate").glob("*/*.fpingout"))) > 6  # of each rule, of its sources


def test_all_rules_hold_and_what_does_not_is_said(archive):
    """Every rate of every rule, and the injected one, as the hosts measured them; delays where the kernel has netem."""
    run, rows = facts(archive), map(LinkFidelity.from_json, open_archive(archive).links())
    rates = {(row.src, row.dst): row.measured.rate_bps for row in rows if row.measured}
    wanted = {"edge-1": 60e6, "edge-2": 40e6, "fog-1": 25e6, "fog-2": 50e6, "cloud-1": 50e6, "cloud-2": 30e6}
    assert {src: rate for (src, _), rate in rates.items()} == pytest.approx(wanted, rel=0.05)
    assert run["injected"]["links"] == {"fog-1 -> fog-2": 0.5}
    backend, said = run["emulation"]["backend"], " ".join(run["limitations"])
    assert backend in ("tc", "htb")
    assert ("needs netem" in said) == ("link fog-2 -> cloud-1: round trip" in said) == (backend == "htb")
    assert " Mbit/s measured" not in said


def test_processors_are_as_slow_as_asked(archive):
    compute = facts(archive)["emulation"]["compute"]
    assert compute["method"] == "sleep"
    assert compute["speed"] == pytest.approx(
        {
            f"{layer}-{number}": 0.05 if layer == "edge" else 0.1
            for layer in ("edge", "fog", "cloud")
            for number in (1, 2)
        }
    )


def test_no_secret_of_its_scenario_is_in_it(ran, archive):
    secrets = forms(KINDS["exported"]) | forms(KINDS["nested"])

    def holding(folder):
        files = (path for path in folder.rglob("*") if path.is_file())
        return [str(path) for path in files if any(secret in path.read_bytes() for secret in secrets)]

    assert holding(ran[1]) != []  # E2Clab's own folder has them
    assert holding(archive) == []


def test_collected_again_it_is_the_same(ran, archive, tmp_path):
    source, output, _ = ran
    again = [*COMMAND, "collect", str(output), str(source), "--archive", str(tmp_path / "b")]
    subprocess.run(again, check=True, capture_output=True)
    names = {path.relative_to(archive) for path in archive.rglob("*") if path.is_file()}
    assert names == {path.relative_to(tmp_path / "b") for path in (tmp_path / "b").rglob("*") if path.is_file()}
    assert [str(name) for name in names if (archive / name).read_bytes() != (tmp_path / "b" / name).read_bytes()] == []
