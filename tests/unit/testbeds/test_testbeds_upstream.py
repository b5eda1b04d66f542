"""What is worth fixing in E2Clab and EnOSlib (docs/upstream.md), shown on their own functions, as they are.

A test that fails here is good news: it has been mended there, and the page and what this project does about it can go.
"""

import importlib
import logging
import subprocess
import time
from collections.abc import Set
from contextlib import contextmanager
from datetime import datetime
from enum import Enum
from types import SimpleNamespace
from zoneinfo import ZoneInfo

import enoslib as en
import pytest
from enoslib.objects import DefaultNetwork, IPAddress, NetDevice

from e2c_dl.testbeds.e2clab import upstream

RULES = {"networks": [
    {"src": "edge.*", "dst": "fog.*", "delay": "5ms", "rate": "40mbit"},
    {"src": "edge.*", "dst": "cloud.*", "delay": "15ms", "rate": "30mbit"},
]}  # fmt: skip


@pytest.fixture(autouse=True)
def loaded() -> None:
    upstream.check()


def bare(module: str, name: str, **attributes: object):
    """One of E2Clab's objects, with no more than these."""
    kind = getattr(importlib.import_module(module), name)
    made = kind.__new__(kind)
    vars(made).update({"logger": logging.getLogger("e2clab.upstream"), **attributes})
    return made


@pytest.fixture
def commands(monkeypatch) -> list[dict[str, list[str]]]:
    """What EnOSlib would have run, of each deployment: host -> commands."""
    found: list[dict[str, list[str]]] = []

    @contextmanager
    def play_on(*_, extra_vars, **__):
        found.append(extra_vars["tc_commands"])
        yield SimpleNamespace(raw=lambda *_, **__: None)

    monkeypatch.setattr("enoslib.service.emul.htb.play_on", play_on)
    return found


def deployed(rules: dict, commands: list) -> list[dict[str, list[str]]]:
    """By E2Clab's own network step, over a host of each layer."""
    network = DefaultNetwork("198.19.0.0/24")
    hosts = {
        layer: en.Host(layer, net_devices={NetDevice("eth1", {IPAddress(f"198.19.0.{n}/24", network)})})
        for n, layer in enumerate(("edge", "fog", "cloud"), 1)
    }
    roles = en.Roles({f"{layer}.trainer.1.1": [host] for layer, host in hosts.items()})
    config = importlib.import_module("e2clab.config").NetworkConfig(rules)
    bare("e2clab.network", "Network", config=config, roles=roles, networks_to_em=[network], netems={}).deploy()
    return commands


def test_network_rules_of_one_source_wipe_each_other(commands) -> None:
    """Edge 1."""
    first, second = (" ; ".join(each["edge"]) for each in deployed(RULES, commands))
    assert "198.19.0.2" in first and "198.19.0.3" not in first
    assert "tc qdisc del dev eth1 root" in second and "198.19.0.2" not in second


def test_a_pattern_that_matches_nothing_is_no_error(commands) -> None:
    """Edge 2."""
    rules = {"networks": [RULES["networks"][0] | {"src": "egde.*"}]}
    assert deployed(rules, commands) == [{}]


def experiment(**attributes: object):
    defaults = {"app_conf_list": [], "infrastructure": lambda: None, "network": lambda: None}
    return bare("e2clab.experiment", "Experiment", **{**defaults, **attributes})


def raising(error: BaseException):
    def act(*_: object, **__: object) -> None:
        raise error

    return act


def test_a_deployment_that_failed_ends_as_one_that_did_not() -> None:
    """Edge 3: whoever calls it hears nothing."""
    errors = importlib.import_module("e2clab.errors")
    for error in (errors.E2clabNetworkError, errors.E2clabWorkflowError):
        assert experiment(network=raising(error())).deploy(duration=0) is None


def test_a_service_that_fails_leaves_the_reservation_up(monkeypatch, tmp_path) -> None:
    """Edge 4: its cause is lost, what is raised is not what `deploy` waits for, and nothing is destroyed."""
    errors = importlib.import_module("e2clab.errors")
    service = bare("e2clab.services", "Service")
    monkeypatch.setattr(type(service), "deploy", raising(OSError("the disk is on fire")))
    with pytest.raises(errors.E2clabServiceError) as failed:
        service._init()
    assert failed.value.__cause__ is None

    infra = SimpleNamespace(prepare=lambda: None, deploy=raising(failed.value))
    monkeypatch.setattr("e2clab.experiment.Infrastructure", lambda *_: infra)
    destroyed: list[str] = []
    started = experiment(scenario_dir=tmp_path, artifacts_dir=tmp_path, optimization_id=None, meta={})
    del started.infrastructure  # its own
    started.destroy = lambda: destroyed.append("all")
    with pytest.raises(errors.E2clabError):
        started.deploy(duration=0, destroy_on_fail=True)
    assert destroyed == []


def test_a_service_without_a_class_is_deployed_as_default() -> None:
    """Edge 5."""
    config = importlib.import_module("e2clab.config").InfrastructureConfig(
        {"environment": {"g5k": {"cluster": "a"}}, "layers": [{"name": "edge", "services": [{"name": "Trainr"}]}]}
    )
    assert config.get_services_to_load() == ["Default"]


def test_hosts_of_a_service_have_no_order() -> None:
    """Edge 6."""
    assert isinstance(en.Roles({"1_1": [en.Host("a"), en.Host("b")]})["1_1"], Set)


def test_the_second_repeat_is_the_first_again() -> None:
    """Edge 7."""
    workflow = bare("e2clab.workflow", "Workflow", scenario_dir=".", artifacts_dir=".", app_conf=None,
                    optimization_config=None)  # fmt: skip
    assert [workflow._get_ansible_vars(number, ".")["current_repeat"] for number in (0, 1, 2)] == [1, 1, 2]


def test_monitoring_is_destroyed_after_the_first_configuration(tmp_path) -> None:
    """Edge 8."""
    done: list[str] = []
    manager = SimpleNamespace(backup=lambda **_: done.append("backup"), destroy=lambda: done.append("destroy"))
    infra = bare("e2clab.infra", "Infrastructure", managers={Enum("Kind", "DSTAT").DSTAT: manager})
    started = experiment(infra=infra, app=object(), experiment_dir=tmp_path, repeat=0, run_task=lambda *_, **__: None)
    for configuration in ("a", "b"):
        started.finalize(app_conf=configuration)
    assert done == ["backup", "destroy"] * 2


def test_its_templates_are_not_in_the_wheel() -> None:
    """Edge 13."""
    assert not importlib.import_module("e2clab.constants").PATH_TEMPLATES.exists()


def test_variables_are_read_unparsed(monkeypatch) -> None:
    """Edge 16."""
    monkeypatch.setenv("E2C_NODE_QUANTITY", "2")
    assert importlib.import_module("e2clab.constants.default").load_def("NODE_QUANTITY", 1) == "2"


def test_the_project_is_handed_to_nobody(monkeypatch) -> None:
    """Edge 15."""
    said = {"environment": {"g5k": {"cluster": "a", "project": "lab"}}, "layers": [{"name": "edge", "services": []}]}
    config = importlib.import_module("e2clab.config").InfrastructureConfig(said)
    config.refine_to_environment("g5k")
    asked: list[set[str]] = []

    def from_settings(**given: object) -> None:
        asked.append(set(given))
        raise InterruptedError

    monkeypatch.setattr(en.G5kConf, "from_settings", from_settings)
    with pytest.raises(InterruptedError):
        importlib.import_module("e2clab.providers.plugins.G5k").G5kConfig(config).init()
    assert "walltime" in asked[0] and "project" not in asked[0]


def test_destroying_what_was_not_reserved_is_another_error() -> None:
    """Edge 22."""
    with pytest.raises(AttributeError, match="en_provider"):
        bare("e2clab.providers.plugins.G5k", "G5k").destroy()


def test_a_kernel_without_netem_is_no_error(commands, tmp_path) -> None:
    """Edge 19: the shell's status is that of the last command."""
    (chunk, *_) = deployed({"networks": RULES["networks"][:1]}, commands)[0]["edge"]
    tc = tmp_path / "tc"
    tc.write_text(f'#!/bin/sh\necho "$*" >>{tmp_path}/said\ncase "$*" in *netem*) exit 2;; esac\n')
    tc.chmod(0o755)
    done = subprocess.run(["/bin/sh", "-c", chunk], env={"PATH": f"{tmp_path}:/usr/bin:/bin"}, check=False)
    assert "netem" in (tmp_path / "said").read_text() and done.returncode == 0


def test_nodes_that_were_deployed_are_forgotten(monkeypatch) -> None:
    """Edge 20."""
    provider = importlib.import_module("enoslib.infra.enos_g5k.provider")
    answers = iter([(["one", "three"], ["two"]), (["two"], [])])
    monkeypatch.setattr(provider, "_deploy_attempt", lambda *_: next(answers))
    assert provider.deploy_with_retries(["one", "two", "three"], False, {}) == (["two"], [])


def test_a_job_that_is_over_is_waited_for(monkeypatch) -> None:
    """Edge 21."""
    waits = iter(range(20))

    def sleep(_: float) -> None:
        if next(waits, None) is None:
            raise TimeoutError

    utils = importlib.import_module("enoslib.infra.enos_g5k.g5k_api_utils")
    monkeypatch.setattr(utils.time, "sleep", sleep)
    job = SimpleNamespace(uid=1, site="rennes", state="terminated", refresh=lambda: None)
    with pytest.raises(TimeoutError):
        utils.wait_for_jobs([job])


@pytest.fixture
def in_new_york():
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("TZ", "America/New_York")
        time.tzset()
        yield
    time.tzset()


@pytest.mark.usefixtures("in_new_york")
def test_a_reservation_of_several_sites_is_in_the_controllers_time(monkeypatch) -> None:
    module = importlib.import_module("enoslib.infra.enos_g5k.provider")
    begins: list[int] = []

    def async_init(start_time: int) -> None:
        begins.append(start_time)
        raise InterruptedError

    monkeypatch.setattr(module, "Providers", lambda _: SimpleNamespace(async_init=async_init))
    conf = SimpleNamespace(sites=["lille", "rennes"], reservation="2031-01-01 12:00:00", restrict_to=lambda _: None)
    reserve = module.G5k.reserve
    monkeypatch.setattr(module, "G5kBase", lambda _: None)
    with pytest.raises(InterruptedError):
        reserve(bare(module.__name__, "G5k", provider_conf=conf))
    noon = datetime(2031, 1, 1, 12, tzinfo=ZoneInfo("Europe/Paris"))
    assert begins[0] - noon.timestamp() == 6 * 3600


def test_requests_have_no_time_out(monkeypatch) -> None:
    """Edge 22."""
    asked: list[object] = []

    def send(*_: object, timeout: object = None, **__: object) -> None:
        asked.append(timeout)
        raise InterruptedError

    import grid5000

    client = grid5000.Grid5000(uri="http://127.0.0.1:9", username="a", password="b")
    monkeypatch.setattr(client.session, "send", send)
    with pytest.raises(InterruptedError):
        client.sites.list()
    assert asked == [None]
