"""The training address is that of the reserved network's device, whatever else a host has."""

import enoslib as en
import pytest
from enoslib.objects import BridgeDevice, DefaultNetwork, IPAddress, NetDevice

from e2c_dl.errors import TestbedError
from e2c_dl.testbeds.e2clab import reservation, trainer, training_address
from e2c_dl.testbeds.e2clab.training_address import TrainingAddress

PRODUCTION = DefaultNetwork("172.16.96.0/20")
MONITORING = DefaultNetwork("10.16.0.0/18")
SIX = DefaultNetwork("2001:660:4406:700::/64")
NAME = "paravance-3.rennes.grid5000.fr"


def device(name, *addresses, kind=NetDevice, **more):
    """``addresses``: (address, the reserved network that EnOSlib found it in, or None)."""
    return kind(name=name, addresses={IPAddress(address, network) for address, network in addresses}, **more)


DOCKER0 = device("docker0", ("172.17.0.1/16", None))
LO = device("lo", ("127.0.0.1/8", None), ("::1/128", None))
ENO1 = device("eno1", ("172.16.96.3/20", PRODUCTION))
ENO2 = device("eno2", ("10.16.61.3/18", MONITORING))
IB0 = device("ib0", ("10.0.0.3/16", None))


def host(*devices, address=NAME):
    return en.Host(address, net_devices=set(devices))


@pytest.mark.parametrize(
    ("devices", "known", "trains"),
    [
        ([DOCKER0, ENO1, LO], {}, ("eno1", "172.16.96.3")),
        ([device("br0", ("172.16.96.3/20", PRODUCTION), kind=BridgeDevice, bridged=["eno1"]), DOCKER0],
         {}, ("br0", "172.16.96.3")),
        ([IB0, ENO1], {}, ("eno1", "172.16.96.3")),
        ([ENO2, ENO1], {NAME: "172.16.96.3"}, ("eno1", "172.16.96.3")),
        ([ENO1, device("eno9", ("172.16.96.9/20", PRODUCTION))], {NAME: "172.16.96.9"}, ("eno9", "172.16.96.9")),
        ([device("eno1", ("2001:660:4406:700::3/64", SIX), ("172.16.96.3/20", PRODUCTION))],
         {}, ("eno1", "172.16.96.3")),
        ([device("eno1", ("172.16.96.30/20", PRODUCTION), ("172.16.96.4/20", PRODUCTION))],
         {}, ("eno1", "172.16.96.4")),
        ([ENO1, IB0], {NAME: "10.0.0.3"}, ("eno1", "172.16.96.3")),
        ([DOCKER0, IB0], {NAME: "10.0.0.3"}, ("ib0", "10.0.0.3")),
    ],
    ids=["docker0", "br0", "ib0", "two NICs", "two NICs of one network", "IPv6 beside IPv4", "secondary address",
         "the name leads out of the reserved network", "none is in a reserved network"],
)  # fmt: skip
def test_it_is_that_of_the_reserved_networks_device(devices, known, trains) -> None:
    found = training_address.of_host(host(*devices), lambda name: frozenset({known[name]} if name in known else ()))
    assert found == TrainingAddress(*trains)


@pytest.mark.parametrize(
    ("devices", "said"),
    [
        ([ENO1, ENO2], "has eno1 172.16.96.3, eno2 10.16.61.3: several are in reserved networks"),
        ([DOCKER0], "has docker0 172.17.0.1: none is in a reserved network"),
        ([device("eno1", ("2001:660:4406:700::3/64", SIX))], "has no IPv4 address: none is in a reserved network"),
    ],
    ids=["two", "docker0 alone", "IPv6 alone"],
)
def test_what_is_not_known_is_not_guessed(devices, said) -> None:
    with pytest.raises(TestbedError, match=said):
        training_address.of_host(host(*devices), lambda _: frozenset())


def test_an_address_needs_no_resolver() -> None:
    assert training_address.of_host(host(ENO1, ENO2, address="10.16.61.3")).device == "eno2"


def test_plain_e2clab_is_told_the_same_and_that_workers_emulate() -> None:
    told = trainer.published(host(DOCKER0, ENO1))
    assert (told["data_device"], told["data_address"], told["own_emulation"]) == ("eno1", "172.16.96.3", True)
    assert (told["address"], told["node"]) == ("172.16.96.3", NAME)  # nodes need not know each other's names
    assert told["versions"]["e2clab"].startswith("3.7.")


def test_on_grid5000_it_is_the_same() -> None:
    node = reservation._node("edge-1", host(DOCKER0, IB0, ENO1))
    assert (node.address, node.device, node.data_address) == (NAME, "eno1", "172.16.96.3")
    node = reservation._node("edge-1", host(device("a0", ("10.16.61.3/18", MONITORING)), ENO1, address="172.16.96.3"))
    assert node.device == "eno1"  # not the first by its name
    with pytest.raises(TestbedError, match="host edge-1: paravance-3.*several are in reserved networks"):
        reservation._node("edge-1", host(ENO1, ENO2))
