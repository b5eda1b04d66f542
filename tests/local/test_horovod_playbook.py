"""Horovod's wheel on hosts that have torch: all get it at one path, and a second run changes nothing."""

import importlib.util
import os
import subprocess
import sys
from pathlib import Path

import pytest

from e2c_dl.emulation.backend import Backend
from e2c_dl.scenario.model import Tcp
from e2c_dl.testbeds import registry
from e2c_dl.testbeds.e2clab import own_programs, upstream
from e2c_dl.testbeds.e2clab.hosts import EXTRA
from e2c_dl.testbeds.horovod import recipe, wheels
from e2c_dl.testbeds.namespaces.hosts import NamespaceHosts
from e2c_dl.testbeds.programs import ssh_argv
from e2c_dl.testbeds.this_machine import addresses, private_root
from e2c_dl.testbeds.this_machine.hosts import HostSpec

pytestmark = [pytest.mark.local, pytest.mark.slow]

PLACE = "/opt/trains"
# What this interpreter has, Horovod apart, in an environment of each host's own.
WITHOUT_HOROVOD = """
set -e
{python} -m venv --without-pip {place}
mkdir {place}/packages
ln -s {packages}/* {place}/packages/
rm -f {place}/packages/horovod*
echo {place}/packages > "$(echo {place}/lib/python3*/site-packages)/packages.pth"
"""
WHERE = "import horovod.torch as hvd; print(hvd.__file__)"


@pytest.fixture
def accesses():
    if (problem := private_root.problem()) is not None:
        pytest.skip(f"hosts have no files of their own here: {problem}")
    if wheels.find(wheels.interpreter(), wheels.default_cache()) is None:
        pytest.skip("no wheel of Horovod in the cache: make setup-horovod")
    run = registry.begin(registry.new_run_id(), scenario="wheel", choose_slot=addresses.free_slot)
    tcp = Tcp(congestion_control="cubic", slow_start_after_idle=False)
    testbed = NamespaceHosts(run, [HostSpec(name="edge-1"), HostSpec(name="cloud-1")], backend=Backend.TC, tcp=tcp)
    try:
        yield testbed.up()
    finally:
        testbed.down()


def test_the_wheel_is_brought_to_all_hosts_at_one_path(accesses, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    upstream.check()
    for name, value in upstream.ANSIBLE_SETTINGS.items():
        monkeypatch.setitem(os.environ, name, value)
    monkeypatch.setitem(os.environ, "ANSIBLE_SSH_CONTROL_PATH_DIR", str(tmp_path / "ssh"))
    import enoslib as en

    packages = Path(importlib.util.find_spec("torch").origin).parents[1]
    script = WITHOUT_HOROVOD.format(python=os.path.realpath(sys.executable), packages=packages, place=PLACE)
    python = f"{PLACE}/bin/python"

    def on(access, *argv):
        return subprocess.run(ssh_argv(access, *argv), capture_output=True, text=True, check=False)

    for access in accesses:
        assert on(access, "sh", "-c", script).returncode == 0
        assert "No module named 'horovod'" in on(access, python, "-c", WHERE).stderr
    hosts = [
        en.Host(
            access.address, alias=access.name, user=access.user, keyfile=access.keyfile,
            extra={"ansible_python_interpreter": sys.executable, EXTRA: {"python": python}},
        )
        for access in accesses
    ]  # fmt: skip

    changed = []
    played = en.run_ansible

    def counted(*args, **more):
        changed.append(sum(bool(result.payload.get("changed")) for result in played(*args, **more)))

    monkeypatch.setattr(en, "run_ansible", counted)
    own_programs._install_horovod(hosts)
    own_programs._install_horovod(hosts)

    assert changed[0] == 3 * len(hosts) and changed[1] == 0  # a folder, the wheel, its installation
    places = {on(access, python, "-c", WHERE).stdout.strip() for access in accesses}
    assert len(places) == 1 and places.pop().startswith(f"{PLACE}/lib/")
    listed = [on(access, "ls", f"{PLACE}/wheels").stdout.split() for access in accesses]
    assert listed[0] == listed[1] and listed[0][0].startswith(f"horovod-{recipe.VERSION}-")
    assert not Path(PLACE).exists()
