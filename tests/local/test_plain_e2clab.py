"""Plain ``e2clab deploy`` on Grid'5000's nodes: an API on loopback, nodes that are namespaces; collected twice.

Six hosts are more than Ansible's five forks. Of E2Clab's rules each host keeps the last: its workers put all in force.
"""

import os
import subprocess
import sys
from datetime import datetime
from pathlib import Path

import pytest
from grid5000_api import Platform, serving
from grid5000_controller import Controller, nodes, unused_wheel
from planted_secrets import KINDS, forms
from whole_runs import COMMAND, facts, scenario

from e2c_dl.archive.read import open_archive
from e2c_dl.archive.verify import verify
from e2c_dl.emulation.measuring.fidelity import LinkFidelity
from e2c_dl.emulation.measuring.quick import CAP_BPS
from e2c_dl.resources import layers_services_dir

pytestmark = [pytest.mark.local, pytest.mark.slow]

# As a user does it on a front end, but that the service is installed for this one process and those that it starts, as
# `e2c-dl services install` installs each of ours (test_services_command.py): every one takes E2Clab seconds to import.
DEPLOY = """
set -e
plugins=$("$1/python" -c 'from importlib.util import *; print(find_spec("e2clab").submodule_search_locations[0])')
plugins=$plugins/services/plugins
cp -r "$plugins" "$2/plugins"
mount --bind "$2/plugins" "$plugins"
cd "$2"
"$1/e2clab" services add "$4/Trainer.py" --link
exec "$1/e2clab" deploy "$3" "$2/artifacts" --destroy
"""


NETWORK = """\
networks:
- {src: edge.*, dst: fog.*, delay: 0ms, rate: 40mbit}
- {src: edge.*, dst: cloud.*, delay: 0ms, rate: 30mbit, symmetric: true}
- {src: fog.*, dst: cloud.*, delay: 3ms, rate: 50mbit}
"""
EMULATION = """\
compute: {method: sleep, cores: 0.1, factors: {edge.*: 2}}
injected:
  seed: 1
  links: [{src: fog-2, dst: cloud-1, rate_factor: 0.5}]
"""


@pytest.fixture(scope="module")
def ran(tmp_path_factory, repository):
    """(the scenario's folder, E2Clab's folder in it, the API): reserved, deployed, trained, finalized, given back."""
    folder = tmp_path_factory.mktemp("plain")
    workflow = repository / "experiments/first-light/workflow.yaml"
    source = scenario(folder / "s", workflow, iterations=4, network=NETWORK, emulation=EMULATION, shapes=True)
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
    words = (Path(sys.executable).parent, folder, source, layers_services_dir())
    with nodes(6, tmp_path_factory.mktemp("state")) as up:
        with serving(Platform(addresses=[access.address for access in up], states=("running",))) as api:
            controller = Controller(folder, api, Path(up[0].keyfile))
            done = subprocess.run(
                controller.argv("sh", "-c", DEPLOY, "sh", *map(str, words)),
                env=os.environ | {"E2CDL_WHEEL": str(unused_wheel(folder))},
                capture_output=True, text=True, check=False, timeout=880,
            )  # fmt: skip
    assert done.returncode == 0, done.stdout + done.stderr
    (output,) = [path for path in source.iterdir() if path.is_dir() and path.name[0].isdigit()]
    return source, output, api


@pytest.fixture(scope="module")
def archive(ran):
    source, output, _ = ran
    path = output.parent / f"{output.name}-archive"
    collected = subprocess.run(
        [*COMMAND, "collect", f"{output}/", str(source)], capture_output=True, text=True, check=False
    )
    assert collected.returncode == 0, collected.stdout + collected.stderr
    return path


def test_it_ends_well_and_gives_its_nodes_back(ran):
    _, output, api = ran
    assert (output / "e2clab.err").read_text() == ""
    assert api.up() == [] and [job.deleted for job in api.jobs.values()] == [True]


def test_the_archive_says_when_where_and_with_what(ran, archive):
    _, output, _ = ran
    run = facts(archive)
    assert verify(archive) == ()
    assert run["outcome"] == "finished"
    assert run["started"].replace("-", "").replace(":", "").replace("T", "-").startswith(output.name)
    ends = [open_archive(archive).host(host["name"]).outcome().ended_s for host in run["hosts"]]
    assert abs(datetime.fromisoformat(run["ended"]).timestamp() - max(ends)) <= 1
    assert {"e2clab", "enoslib", "ansible-core", "e2c_dl"} <= run["versions"].keys()
    assert {host["address"].partition(".")[2] for host in run["hosts"]} == {"rennes.grid5000.fr"}
    assert {host["data_device"] for host in run["hosts"]} == {"eth0"}
    assert run["facts"]["training"]["strategy"] == "allreduce"
    assert run["facts"]["jobs"] == [{"site": "rennes", "oar_job_id": "1000"}]
    assert len(list((archive / "fetched/network-validate").glob("*/*.fpingout"))) > 6  # of each rule, of its sources


def test_all_rules_hold_and_what_does_not_is_said(archive):
    """Every rate of every rule, and the injected one, as the hosts measured them; delays where the kernel has netem."""
    run, rows = facts(archive), map(LinkFidelity.from_json, open_archive(archive).links())
    rates = {(row.src, row.dst): row.measured.rate_bps for row in rows if row.measured}
    shaped = {("edge-2", "fog-1"): 40e6, ("fog-2", "cloud-1"): 25e6, ("cloud-2", "edge-1"): 30e6}
    assert {pair: rates[pair] for pair in shaped} == pytest.approx(shaped, rel=0.05)
    assert max(rates.values()) <= CAP_BPS  # of links without a rate: no more than was sent
    assert run["injected"]["links"] == {"fog-2 -> cloud-1": 0.5}
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
