import pytest

from e2c_dl import __version__
from e2c_dl.emulation.backend import Backend
from e2c_dl.testbeds.machines.facts import Facts
from e2c_dl.testbeds.machines.inventory import Machine, SharedDevice

TOLD = {
    "hostname": "node",
    "kernel": "6.1",
    "uid": 0,
    "python": "3.11.2",
    "cores": 8,
    "gpus": ["GPU 0"],
    "ssh_address": "10.0.0.1",
    "ssh_device": "eth0",
    "devices": {"lo": ["127.0.0.1"], "eth0": ["10.0.0.1"], "eth1": ["192.168.7.1"]},
    "shaped_by": {"eth0": None, "eth1": None},
    "claimed_by": {"eth0": None, "eth1": None},
    "qdisc_problems": {"htb": None, "netem": None},
    "version": __version__,
}


def facts(told: dict | None = None, **machine) -> Facts:
    listed = Machine(where="hosts.yaml:2: hosts[0]", address="node", key="/key", **{"data_device": "eth1", **machine})
    return Facts(machine=listed, told=TOLD | (told or {}))


def test_a_machine_that_can_do_everything():
    found = facts()
    assert found.problems(shaped=True) == ()
    assert (found.data_device, found.data_address, found.backend) == ("eth1", "192.168.7.1", Backend.TC)
    assert found.python == "/opt/e2c_dl/bin/python"


@pytest.mark.parametrize(
    ("machine", "device", "address"),
    [
        ({"data_device": None, "data_address": "192.168.7.1"}, "eth1", "192.168.7.1"),
        ({"data_device": None}, "eth0", "10.0.0.1"),
        ({"data_device": None, "data_address": "1.1.1.1"}, None, "1.1.1.1"),
    ],
)
def test_where_training_talks(machine, device, address):
    found = facts(**machine)
    assert (found.data_device, found.data_address) == (device, address)


@pytest.mark.parametrize(
    ("told", "machine", "said"),
    [
        ({"python": "3.8.1", "version": None}, {}, ": its python3 is 3.8.1; name one of 3.10 or later"),
        ({"version": None}, {"python": "/py"}, ".python: /py: e2c_dl is not installed there; install"),
        ({"version": "0.0.1"}, {"python": "/py"}, ".python: /py: it has e2c_dl 0.0.1; install"),
        ({"version": None, "uid": 7}, {"user": "me"}, ".user: me may not install to /opt/e2c_dl; write user: root"),
        ({"gpus": []}, {"gpus": 1}, ".gpus: 1 asked for, nvidia-smi lists 0"),
        ({"devices": {}}, {}, ": there is no `ip` that answers in JSON; apt-get install iproute2"),
        ({}, {"data_device": "eth7"}, ".data_device: there is no eth7; devices: eth0, eth1"),
        ({}, {"data_device": None, "data_address": "1.1.1.1"}, ".data_address: no device there has 1.1.1.1"),
        ({}, {"data_address": "1.1.1.1"}, ".data_device: eth1 does not have 1.1.1.1; write data_address"),
        ({}, {"data_device": "eth0"}, ": eth0 carries SSH and training alike; give data_address on another device"),
        ({"claimed_by": {"eth1": "0a"}}, {}, ": eth1 is shaped by run 0a; wait, or `e2c-dl destroy 0a`"),
        ({"shaped_by": {"eth1": "tbf"}}, {}, ": somebody has put tbf on eth1; `tc qdisc del dev eth1 root` there"),
        ({"shaped_by": {"eth1": "ingress"}}, {}, ": somebody has put ingress on eth1; `tc qdisc del dev eth1 ingress`"),
    ],
)
def test_what_stands_in_the_way(told, machine, said):
    (line,) = facts(told, **machine).problems(shaped=True)
    assert line.startswith("hosts.yaml:2: hosts[0]" + said)


def test_a_device_that_is_not_shaped_may_carry_everything():
    assert facts(data_device="eth0").problems(shaped=False) == ()
    assert facts(data_device="eth0", shared_device=SharedDevice.SHAPE).problems(shaped=True) == ()


def test_a_machine_that_does_not_answer_is_named():
    found = Facts(machine=Machine(where="f:2: hosts[0]", address="node", key="/k"), unreachable="Connection refused")
    assert found.problems(shaped=True) == ("f:2: hosts[0].address: root@node port 22: Connection refused",)


@pytest.mark.parametrize(
    ("told", "machine", "backend", "why"),
    [
        ({"qdisc_problems": {"htb": None, "netem": "unknown"}}, {}, Backend.HTB, "its kernel has no netem (unknown)"),
        ({"qdisc_problems": {"htb": "no", "netem": "no"}}, {}, Backend.NONE, "its kernel has no HTB (no)"),
        ({"uid": 1000}, {"user": "me"}, Backend.NONE, "me is not root there"),
        (
            {}, {"data_device": "eth0", "shared_device": SharedDevice.LEAVE},
            Backend.NONE, "eth0 carries SSH too, and the inventory says to leave it",
        ),
    ],
)  # fmt: skip
def test_what_a_machine_can_do_for_its_links(told, machine, backend, why):
    found = facts(told, **machine)
    assert (found.backend, found.why_not_more()) == (backend, why)
