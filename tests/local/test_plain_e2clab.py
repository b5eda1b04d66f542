"""Plain ``e2clab deploy`` runs the same scenario: its own network step, its own forks; collected afterwards."""

import subprocess
import sys

import pytest
from whole_runs import COMMAND, NETWORK, facts, nothing_left, scenario

from e2c_dl.archive.verify import verify

pytestmark = [pytest.mark.local, pytest.mark.slow]

# E2Clab's own command line, on hosts of this machine instead of Grid'5000's. Six hosts: more than Ansible's five forks.
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
    return hosts.roles_and_networks(scenario.topology, testbed.up(), dict.fromkeys(names, Told()), {})

try:
    provider = upstream.make_provider(bring_up, lambda: None)
    with upstream.patched(directory=Path.cwd(), provider=provider, service_dirs=[resources.layers_services_dir()]):
        cli.main(["deploy", sys.argv[1], sys.argv[2]], prog_name="e2clab", standalone_mode=False)
finally:
    testbed.down()
"""


def test_plain_e2clab_deploys_trains_and_is_collected(tmp_path, repository):
    source = scenario(tmp_path / "s", repository / "experiments/first-light/workflow.yaml", iterations=4)
    layers = (source / "layers_services.yaml").read_text().replace("name: Trainer,", "name: Trainer, quantity: 2,")
    (source / "layers_services.yaml").write_text(layers)
    # Without delay: a kernel that has no netem would refuse it in silence, and the test would tell nothing.
    (source / "network.yaml").write_text(NETWORK.replace("'*.*'", "'*.trainer.*'").replace("3ms", "0ms"))
    (tmp_path / "artifacts").mkdir()
    done = subprocess.run(
        [sys.executable, "-c", DRIVER, str(source), str(tmp_path / "artifacts")],
        cwd=tmp_path, capture_output=True, text=True, check=False, timeout=280,
    )  # fmt: skip
    assert done.returncode == 0, done.stdout + done.stderr
    nothing_left(done.stdout.split("run ")[1].split()[0])
    (output,) = [path for path in source.iterdir() if path.is_dir() and path.name[0].isdigit()]
    assert (output / "e2clab.err").read_text() == ""

    archive = tmp_path / "a"
    collected = subprocess.run(
        [*COMMAND, "collect", str(output), str(source), "--archive", str(archive)],
        capture_output=True, text=True, check=False,
    )  # fmt: skip
    assert collected.returncode == 0, collected.stdout + collected.stderr
    assert verify(archive) == ()
    run = facts(archive)
    assert run["outcome"] == "finished"
    assert any("as E2Clab applied it" in sentence for sentence in run["limitations"])
    assert len(list((archive / "hosts").iterdir())) == 6
