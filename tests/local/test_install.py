"""The playbook on a host that has nothing: our wheel and pinned dependencies, offline; a second run changes nothing."""

import os
import shutil
import subprocess
import sys
import tempfile
from pathlib import Path

import pytest

from e2c_dl import __version__, resources
from e2c_dl.emulation.backend import Backend
from e2c_dl.scenario.model import Tcp
from e2c_dl.testbeds import registry
from e2c_dl.testbeds.e2clab import upstream
from e2c_dl.testbeds.e2clab.trainer import wheel_of_this_tree
from e2c_dl.testbeds.namespaces.hosts import NamespaceHosts
from e2c_dl.testbeds.programs import ssh_argv
from e2c_dl.testbeds.this_machine import addresses
from e2c_dl.testbeds.this_machine.hosts import HostSpec

pytestmark = [pytest.mark.local, pytest.mark.machine_network, pytest.mark.slow]


@pytest.fixture
def seen_by_hosts():
    """A folder of this machine that its hosts see, too: their /tmp is their own."""
    folder = Path(tempfile.mkdtemp(prefix="e2cdl-install-", dir="/var/lib"))
    yield folder
    shutil.rmtree(folder)


@pytest.fixture
def access(seen_by_hosts):
    run = registry.begin(registry.new_run_id(), scenario="install", choose_slot=addresses.free_slot)
    tcp = Tcp(congestion_control="cubic", slow_start_after_idle=False)
    testbed = NamespaceHosts(run, [HostSpec(name="edge-1")], backend=Backend.TC, tcp=tcp)
    try:
        yield testbed.up()[0]
    finally:
        testbed.down()


def test_installs_once_and_changes_nothing_the_second_time(access, seen_by_hosts, tmp_path, monkeypatch):
    wheel, wheelhouse, venv = wheel_of_this_tree(), seen_by_hosts / "wheelhouse", tmp_path / "venv"
    download = [sys.executable, "-m", "pip", "download", "--quiet", "--dest", str(wheelhouse)]
    subprocess.run([*download, "--constraint", str(resources.constraints_file()), str(wheel)], check=True)
    monkeypatch.chdir(tmp_path)
    upstream.check()
    for name, value in upstream.ANSIBLE_SETTINGS.items():
        monkeypatch.setitem(os.environ, name, value)
    monkeypatch.setitem(os.environ, "ANSIBLE_SSH_CONTROL_PATH_DIR", str(tmp_path / "ssh"))
    import enoslib as en

    host = en.Host(
        access.address, alias=access.name, user=access.user, keyfile=access.keyfile,
        extra={"ansible_python_interpreter": sys.executable, "e2cdl_python": f"{venv}/bin/python"},
    )  # fmt: skip
    variables = {
        "e2cdl_version": __version__,
        "e2cdl_venv": str(venv),
        "e2cdl_base_python": sys.executable,
        "e2cdl_wheel": str(wheel),
        "e2cdl_shared": False,
        "e2cdl_constraints": str(resources.constraints_file()),
        "e2cdl_extras": "",
        "e2cdl_pip_arguments": ["--no-compile"],  # one program is run once
        "e2cdl_wheelhouse": str(wheelhouse),
        "e2cdl_apt": False,
    }

    def changes() -> int:
        playbook = str(resources.playbooks_dir() / "install.yaml")
        results = en.run_ansible([playbook], roles=en.Roles({"all": [host]}), extra_vars=variables)
        return sum(bool(result.payload.get("changed")) for result in results)

    assert changes() > 0
    said = subprocess.run(
        ssh_argv(access, f"{venv}/bin/e2c-dl", "--version"), capture_output=True, text=True, check=True
    ).stdout
    assert __version__ in said
    assert changes() == 0
