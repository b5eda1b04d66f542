from pathlib import Path

import pytest

from e2c_dl.errors import InputError
from e2c_dl.testbeds.machines import inventory
from e2c_dl.testbeds.machines.inventory import SharedDevice
from e2c_dl.topology import Host, Topology


@pytest.fixture
def listed(tmp_path: Path):
    """Reads an inventory of the text it is given, beside which a good key stands."""
    (tmp_path / "key").write_text("secret")
    (tmp_path / "key").chmod(0o600)
    (tmp_path / "open").write_text("secret")
    (tmp_path / "open").chmod(0o644)

    def load(text: str) -> inventory.Inventory:
        (tmp_path / "hosts.yaml").write_text(text)
        return inventory.load(tmp_path / "hosts.yaml")

    return load


WHOLE = """\
defaults: {user: someone, key: key, data_device: eth1}
hosts:
- {address: 10.0.0.1, name: edge-1, port: 2222}
- address: node-2.site.example
  layer: fog
  user: root
  data_address: 192.168.7.2
  shared_device: leave
  python: /opt/venv/bin/python
  gpus: 2
- {address: 10.0.0.3}
"""


def test_defaults_hold_where_a_host_says_nothing(listed, tmp_path):
    first, second, third = listed(WHOLE).machines
    assert (first.user, first.port, first.data_device, first.key) == ("someone", 2222, "eth1", str(tmp_path / "key"))
    assert (second.user, second.gpus, second.shared_device) == ("root", 2, SharedDevice.LEAVE)
    assert (third.name, third.layer, third.port, third.python) == (None, None, 22, None)


HOST = "- {address: 10.0.0.1, key: key"


def test_a_tilde_is_a_home(listed, tmp_path, monkeypatch):
    monkeypatch.setenv("HOME", str(tmp_path))
    (machine,) = listed("hosts:\n- {address: a, key: ~/key, known_hosts: ~/open}").machines
    assert (machine.key, machine.host_keys) == (str(tmp_path / "key"), str(tmp_path / "open"))


def test_keys_of_machines_are_those_that_ssh_knows_unless_something_is_said(listed, tmp_path):
    hosts = f"hosts:\n{HOST}}}\n- {{address: b, key: key, host_keys: unchecked}}\n"
    hosts += "- {address: c, key: key, host_keys: known}\n- {address: d, key: key, known_hosts: open}"
    file = str(tmp_path / "open")
    assert [machine.host_keys for machine in listed(hosts).machines] == ["known", "unchecked", "known", file]
    unchecked = listed("defaults: {host_keys: unchecked}\n" + hosts)
    assert [machine.host_keys for machine in unchecked.machines] == ["unchecked", "unchecked", "known", file]
    assert [machine.host_keys for machine in listed("defaults: {known_hosts: open}\n" + hosts).machines][:2] == [
        file,
        "unchecked",
    ]


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("hosts: []", "hosts.yaml:1: hosts: is empty; list at least one host under it"),
        ("host: []", "hosts.yaml:1: host: unknown key; did you mean 'hosts'?"),
        ("hosts:\n- {key: key}", "hosts.yaml:2: hosts[0]: key 'address' is missing; add it"),
        ("hosts:\n- {address: 10.0.0.1}", "key 'key' is missing; name the private key here, or under defaults"),
        (f"hosts:\n{HOST}, adress: x}}", "hosts.yaml:2: hosts[0].adress: unknown key; did you mean 'address'?"),
        ("defaults: {prot: 22}\nhosts: []", "hosts.yaml:1: defaults.prot: unknown key; did you mean 'port'?"),
        ("defaults: {address: a}\nhosts: []", "defaults.address: unknown key"),
        ("hosts:\n- {address: 10.0.0.1, key: none}", "none does not exist; name the private key"),
        ("hosts:\n- {address: 10.0.0.1, key: open}", "open has mode 0644, so ssh will not use it; chmod 600"),
        (
            "hosts:\n- {address: -oProxyCommand=x, key: key}",
            "hosts[0].address: '-oProxyCommand=x' is not what is meant",
        ),
        (f"hosts:\n{HOST}, user: 'a b'}}", "hosts[0].user: 'a b' is not what is meant here"),
        (f"hosts:\n{HOST}, python: '/x; reboot'}}", "hosts[0].python: '/x; reboot' is not what is meant here"),
        (f"hosts:\n{HOST}, data_device: eth0/../x}}", "hosts[0].data_device: 'eth0/../x' is not what is meant here"),
        (f"hosts:\n{HOST}, data_address: edge}}", "hosts[0].data_address: 'edge' is no IPv4 address; write one"),
        (f"hosts:\n{HOST}, port: 0}}", "hosts[0].port: 0 is out of range; write a whole number from 1 to 65535"),
        (f"hosts:\n{HOST}, gpus: many}}", "hosts[0].gpus: expected a whole number"),
        (f"hosts:\n{HOST}, shared_device: yes}}", "hosts[0].shared_device: expected text, not true"),
        (f"hosts:\n{HOST}, shared_device: shap}}", "'shap' is not known; did you mean 'shape'?"),
        (f"hosts:\n{HOST}, host_keys: no}}", "hosts[0].host_keys: expected text, not false"),
        (f"hosts:\n{HOST}, host_keys: uncheckd}}", "'uncheckd' is not known; did you mean 'unchecked'?"),
        (f"hosts:\n{HOST}, known_hosts: none}}", "none cannot be read; name a file that `ssh-keyscan HOST ...` wrote"),
        (f"hosts:\n{HOST}, known_hosts: 'a b'}}", "a b cannot be read"),
        (f"hosts:\n{HOST}, known_hosts: ~no-such-user/known}}", "/~no-such-user/known cannot be read; name a file"),
        ("hosts:\n- {address: a, key: ~no-such-user/key}", "/~no-such-user/key does not exist; name the private key"),
        (f"hosts:\n{HOST}, known_hosts: open, host_keys: known}}", "host_keys: stands beside known_hosts, which"),
        (f"hosts:\n{HOST}, name: a, layer: b}}", "hosts[0].layer: stands beside a name, which decides alone"),
        (f"hosts:\n{HOST}}}\n{HOST}}}", "hosts[1].address: 10.0.0.1 is that of hosts.yaml:2: hosts[0] already"),
    ],
)
def test_what_is_wrong_is_said_with_file_and_key(listed, text, said):
    with pytest.raises(InputError) as caught:
        listed(text)
    assert said in str(caught.value) and "hosts.yaml" in str(caught.value)
    assert "\n" not in str(caught.value)


def host(name: str, layer: str, rank: int) -> Host:
    return Host(name=name, layer=layer, service="Trainer", service_id=f"1_1_{rank}", role="r", rank=rank)


TOPOLOGY = Topology(hosts=(host("edge-1", "edge", 0), host("edge-2", "edge", 1), host("cloud-1", "cloud", 2)))


def addresses(listed, hosts: str) -> dict[str, str]:
    found = inventory.matched(TOPOLOGY, listed(f"defaults: {{key: key}}\nhosts:\n{hosts}"))
    return {name: machine.address for name, machine in found.items()}


def test_names_go_before_layers_and_layers_before_what_is_left(listed):
    hosts = "- {address: any}\n- {address: e, layer: edge}\n- {address: two, name: edge-2}\n- {address: more}"
    assert addresses(listed, hosts) == {"edge-1": "e", "edge-2": "two", "cloud-1": "any"}


def test_the_order_of_the_file_decides_within_a_layer(listed):
    hosts = "- {address: b, layer: edge}\n- {address: a, layer: edge}\n- {address: c, layer: cloud}"
    assert addresses(listed, hosts) == {"edge-1": "b", "edge-2": "a", "cloud-1": "c"}


def test_a_host_without_machine_is_named_with_the_remedy(listed):
    few = listed("defaults: {key: key}\nhosts:\n- {address: a, layer: edge}\n- {address: b}")
    assert inventory.problems(TOPOLOGY, few) == (
        "hosts.yaml: no machine is left for host cloud-1; "
        "add one with 'name: cloud-1', with 'layer: cloud', or with neither",
    )
