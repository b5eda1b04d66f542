"""`e2c-dl emulate` on two namespaces joined by the relay, as a run that is up has them."""

from __future__ import annotations

import json
import os
import subprocess
from collections.abc import Iterator
from contextlib import ExitStack
from pathlib import Path

import pytest
from click.testing import CliRunner, Result
from static_hosts import inventory, machines

from e2c_dl.cli.emulate import emulate
from e2c_dl.emulation.relay.config import RelayConfig, RelayHost
from e2c_dl.emulation.relay.process import RelayProcess
from e2c_dl.resources import layers_services_dir
from e2c_dl.scenario.load import load
from e2c_dl.testbeds import registry
from e2c_dl.testbeds.base import Access

pytestmark = [pytest.mark.local, pytest.mark.alone]  # alone: rates are checked

RUN = "0123abcd"
LAYERS = """\
environment: {job_name: small, g5k: {cluster: paradoxe}}
layers:
- name: edge
  services:
  - {name: Trainer, quantity: 2, env: {strategy: allreduce, iterations: 2, batch_size: 16}}
"""
NETWORK = "networks:\n- {src: 'edge.*', dst: 'edge.*', delay: %s, rate: %s}\n"
EXPERIMENT = Path(__file__).parents[2] / "experiments" / "first-light"


def scenario(folder: Path, delay: str, rate: str, emulation: str = "") -> Path:
    folder.mkdir()
    (folder / "layers_services.yaml").write_text(LAYERS)
    (folder / "network.yaml").write_text(NETWORK % (delay, rate))
    (folder / "workflow.yaml").write_text((EXPERIMENT / "workflow.yaml").read_text())
    if emulation:
        (folder / "emulation.yaml").write_text(emulation)
    return folder


@pytest.fixture
def up(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    """The folder of the scenario that is in force."""
    monkeypatch.setenv("E2CDL_STATE", str(tmp_path / "state"))
    assert layers_services_dir().is_dir()
    folder = scenario(tmp_path / "asked", "5ms", "20mbit")
    topology = load(folder).emulated_topology()
    run = registry.begin(RUN, scenario="asked")
    with ExitStack() as stack:
        accesses, hosts = [], []
        for number, name in enumerate(topology.names, 1):
            process = subprocess.Popen(
                ["unshare", "--net", "sh", "-c", "ip link set lo up && echo up && exec cat"],
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
            )
            stack.callback(process.communicate)
            stack.callback(process.kill)
            assert process.stdout is not None and process.stdout.readline() == b"up\n"
            address, mac = f"198.19.0.{number}", f"02:00:00:00:00:0{number}"
            accesses.append(
                Access(
                    name=name, address="-", data_address=address, data_device="eth1", user="-", keyfile="-", port=22,
                    python="-", run_dir="-", netns_pid=process.pid,
                )
            )  # fmt: skip
            hosts.append(RelayHost(name=name, netns_pid=process.pid, device="eth1", address=f"{address}/16", mac=mac))
        config = RelayConfig(
            hosts=tuple(hosts), links=topology.links, bottlenecks=topology.bottlenecks, seed=1,
            report_path=str(tmp_path / "report.json"), control_path=str(run.directory / "relay.sock"),
        )  # fmt: skip
        relay = RelayProcess.start(config, os.environ, tmp_path / "err")
        stack.callback(relay.kill)
        registry.changed(run, hosts=tuple(accesses))
        yield folder


def called(*arguments: object) -> Result:
    done = CliRunner().invoke(emulate, [str(argument) for argument in arguments])
    assert done.exception is None or isinstance(done.exception, SystemExit), done.exception
    return done


def test_links_are_shown_measured_changed_and_cleared(up: Path, tmp_path: Path) -> None:
    shown = called("show", "--scenario", up, "--json")
    assert shown.exit_code == 0
    assert [row["in_force"]["rate_bps"] for row in json.loads(shown.stdout)] == [20e6, 20e6]

    other = scenario(tmp_path / "other", "1ms", "8mbit")
    assert "edge-1 -> edge-2: 8mbit, 1ms" in called("apply", other, "--dry-run").stdout
    assert called("show", "--scenario", up).exit_code == 0
    assert "2 links in force" in called("apply", other).stdout
    assert "not as requested" in called("show", "--scenario", up).stdout

    seen = called("measure", "--quick", "--pairs", "edge-1:edge-2", "--scenario", other, "--json")
    assert seen.exit_code == 0, seen.output
    said = json.loads(seen.stdout)
    assert (said["deviations"], said["failures"]) == ([], [])
    assert said["links"][0]["measured"]["rate_bps"] == pytest.approx(8e6, rel=0.05)
    table = called("measure", "--quick", "--pairs", "*-1:*", "--scenario", up)
    assert "1 of 1 links measured, 2 not as requested" in table.stdout

    called("clear")
    assert called("show", "--scenario", up).exit_code == 1


def test_machines_of_an_inventory_are_shaped_over_ssh_and_left_as_they_were(tmp_path: Path) -> None:
    asked = scenario(tmp_path / "asked", "0ms", "16mbit")
    with machines(2, tmp_path / "machines") as accesses:
        hosts = inventory(accesses, tmp_path / "hosts.yaml")
        dry = called("apply", asked, "--inventory", hosts, "--dry-run").stdout
        assert "tc class replace dev eth1" in dry or "tc class add dev eth1" in dry
        assert "2 links in force" in called("apply", asked, "--inventory", hosts).stdout
        assert called("show", "--inventory", hosts, "--scenario", asked).exit_code == 0
        shown = json.loads(called("show", "--inventory", hosts, "--json").stdout)  # nothing is known to be asked
        assert [row["in_force"]["rate_bps"] for row in shown] == [16e6, 16e6]
        seen = called("measure", "--quick", "--inventory", hosts, "--scenario", asked, "--strict")
        assert "2 of 2 links measured, 0 not as requested" in seen.stdout
        called("clear", "--inventory", hosts)
        assert json.loads(called("show", "--inventory", hosts, "--json").stdout) == []
