"""Services whose hosts train by a program of the user's own: what a scenario of them may and must say."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest

from e2c_dl.campaign.request import Request
from e2c_dl.cli.deploy import several
from e2c_dl.emulation import compute
from e2c_dl.errors import InputError, ScenarioError
from e2c_dl.scenario.configurations import check_app_conf
from e2c_dl.scenario.folder import copies
from e2c_dl.scenario.load import load, problems
from e2c_dl.scenario.services import TRAINING
from tests.small_scenario import writer

HEAD = "environment: {g5k: {cluster: c}}\nlayers:\n- name: edge\n  services:\n"
NONE = "networks:\n"


def layers(*services: str) -> str:
    return HEAD + "".join(f"  - {{{service}}}\n" for service in services)


@pytest.fixture
def write(tmp_path: Path) -> Callable[..., Path]:
    written = writer(tmp_path)
    return lambda text, **more: written(layers=text, network=NONE, workflow=more.pop("workflow", "[]\n"), **more)


def errors(path: Path) -> str:
    return "\n".join(map(str, problems(path)))


@pytest.mark.parametrize(
    "services",
    [
        ("name: Horovod",),
        ("name: TorchTraining, slots: 8, backend: nccl",),
        ("name: FLServer", "name: FLClient, quantity: 2"),
    ],
)
def test_one_host_is_enough_where_a_program_of_ones_own_trains(
    write: Callable[..., Path], services: tuple[str, ...]
) -> None:
    scenario = load(write(layers(*services)))
    assert scenario.trained is None
    assert all(host.rank is not None for host in scenario.topology.hosts)
    with pytest.raises(InputError, match="by a program of their own"):
        _ = scenario.training


def test_what_published_scenarios_say_of_horovod_is_accepted(write: Callable[..., Path]) -> None:
    said = (
        "name: Horovod, docker: True, gpu: True, image: registry.example/a:1, registry_url: registry.example, "
        "registry_username: me, registry_password: '', wandb_api_key: '', wandb_mode: offline, roles: [monitoring], "
        "servers: [a-1.lille.grid5000.fr, a-2.lille.grid5000.fr]"
    )
    assert [host.service for host in load(write(layers(said))).topology.ranks] == ["Horovod", "Horovod"]


@pytest.mark.parametrize(
    ("services", "said"),
    [
        (("name: Horovod, gpus: 2",), "did you mean 'gpu'?"),
        (("name: Horovod, docker: maybe",), "docker"),
        (("name: TorchTraining, slots: 0",), "slots"),
        (("name: Horovod, gpu: 2",), "2 gives no GPUs; write true, false or slot"),
        (("name: FLServer, gpu: slot", "name: FLClient"), "gpu"),
        (("name: FLServer, trace: true", "name: FLClient"), "trace: Flower's clients train each by itself"),
        (("name: Horovod, image: '-v/:/host'",), "'-v/:/host' is no image"),
        (("name: Horovod, image: 'a b; touch c'",), "is no image"),
        (("name: Horovod, registry_url: [a]",), "registry_url: expected text"),
        (("name: Horovod, registry_username: {a: b}",), "registry_username: expected text"),
        (("name: Horovod, wandb_mode: sometimes",), "'sometimes' is no mode of wandb"),
        (("name: Horovod, volumes: [/data]",), "'/data' is no volume; write HOST:CONTAINER"),
        (("name: TorchTraining, backend: mpi",), "backend"),
        (("name: FLClient",), "service FLClient trains with FLServer"),
        (("name: Horovod", "name: TorchTraining"), "two trainings in one scenario"),
        (("name: Default",), "no service of it trains"),
    ],
)
def test_what_makes_no_training_is_said(write: Callable[..., Path], services: tuple[str, ...], said: str) -> None:
    assert said in errors(write(layers(*services)))


@pytest.mark.parametrize("key", ["registry_password", "wandb_api_key"])
def test_a_secret_that_is_no_text_is_not_told(write: Callable[..., Path], key: str) -> None:
    for value in ("20260101", "[hidden20260101]"):
        said = errors(write(layers(f"name: Horovod, {key}: {value}")))
        assert f"{key}: is no text; put it in quotes" in said and "20260101" not in said


@pytest.mark.parametrize(
    ("emulation", "said"),
    [
        ("compute: {method: sleep}\n", "write quota"),
        ("schedules: {compute: [{host: edge-1, factor: {steps: {0s: 1, 15s: 3}}}]}\n", "train by Trainer"),
        ("injected: {seed: 1, faults: [{kill: edge-1, at: 5s}]}\n", "train by Trainer"),
    ],
)
def test_what_only_our_workers_put_in_force_is_refused(write: Callable[..., Path], emulation: str, said: str) -> None:
    assert said in errors(write(layers("name: Horovod, quantity: 2"), emulation=emulation))


def test_slow_hosts_are_slowed_by_quota_alone(write: Callable[..., Path]) -> None:
    text = "compute: {factors: {edge-1: 2}}\n"
    scenario = load(write(layers("name: Horovod, quantity: 2"), emulation=text))
    plan = compute.of_scenario(8, scenario)
    assert plan.cores == {"edge-1": 0.5, "edge-2": 1.0}
    assert not plan.speed and not plan.oversubscribed
    assert "no host is slowed" in compute.quota_missed(scenario, quota=False)[0]


def test_without_slow_hosts_nobody_has_a_quota(write: Callable[..., Path]) -> None:
    plan = compute.of_scenario(2, load(write(layers("name: Horovod, quantity: 2"))))
    assert not plan.cores and not plan.speed


def test_a_workflow_that_asks_for_a_configuration_needs_one(write: Callable[..., Path]) -> None:
    text = "- {hosts: '*.horovod.*', launch: [{shell: 'python main.py --config {{ app_conf }}'}]}\n"
    path = write(layers("name: Horovod"), workflow=text)
    assert errors(path) == ""
    check_app_conf(path, "base")
    with pytest.raises(ScenarioError, match="add --app_conf NAME"):
        check_app_conf(path, None)
    with pytest.raises(InputError, match="cannot name a folder"):
        check_app_conf(path, "../base")
    for wrong in ("a b", "$(id)", "a;b", "-x", "x" * 101, "{{ a }}"):
        with pytest.raises(InputError, match="cannot name a folder"):
            check_app_conf(path, wrong)
    (path / "workflow_env.yaml").write_text("base: {a: 1}\n")
    check_app_conf(path, "base")
    with pytest.raises(ScenarioError, match="workflow_env.yaml"):
        check_app_conf(path, "nil")


@pytest.mark.parametrize("name", ["app_conf", "env_rounds"])
def test_a_configuration_is_known_once_the_workflow_was_prepared(write: Callable[..., Path], name: str) -> None:
    text = f"- {{hosts: '*.horovod.*', STEP: [{{shell: 'echo {{{{ {name} }}}}'}}]}}\n"
    path = write(layers("name: Horovod"), workflow=text.replace("STEP", "launch"))
    (path / "workflow_env.yaml").write_text("base: {rounds: 1}\n")
    check_app_conf(path, "base")
    with pytest.raises(ScenarioError, match="add --app_conf NAME"):
        check_app_conf(path, None)
    (path / "workflow.yaml").write_text(text.replace("STEP", "prepare"))
    with pytest.raises(ScenarioError, match="use it in launch and finalize"):
        check_app_conf(path, "base")
    (path / "workflow.yaml").write_text(text.replace("STEP", "prepare").replace(name, f"{name} | default(1)"))
    check_app_conf(path, "base")
    check_app_conf(path, None)


def test_each_configuration_is_run_as_often_as_asked() -> None:
    request = Request(scenario=Path("/s"), artifacts=Path("/a"), testbed="local", archive=Path("/r"))
    found = several(request, "a, b", 2)
    assert [(one.app_conf, one.current_repeat) for one in found] == [("a", 1), ("b", 1), ("a", 2), ("b", 2)]
    assert [str(one.archive) for one in found] == ["/r/a-repeat-1", "/r/b-repeat-1", "/r/a-repeat-2", "/r/b-repeat-2"]
    assert several(request, None, 1) == (request,)
    for wrong in ("a,", "a,a", ""):
        with pytest.raises(Exception, match="name each configuration once"):
            several(request, wrong, 1)


def test_every_service_that_trains_has_its_file(repository: Path) -> None:
    assert {path.stem for path in (repository / "layers_services").glob("*.py")} == set(TRAINING)


def test_what_the_workflow_sends_goes_into_the_copy(
    write: Callable[..., Path], tmp_path_factory: pytest.TempPathFactory
) -> None:
    text = (
        "- hosts: '*.horovod.*'\n  prepare:\n  - include_vars: '{{ scenario_dir }}/vars/vars.yaml'\n"
        "  - copy: {src: '{{scenario_dir}}/scripts', dest: /root}\n"
        "  - copy: {src: '{{ scenario_dir }}/../secret', dest: /}\n"
        "  - copy: {src: '{{ scenario_dir }}/absent.sh', dest: /}\n"
    )
    path = write(layers("name: Horovod"), workflow=text)
    for name in ("vars/vars.yaml", "scripts/a/b.sh", "other/big.tar"):
        (path / name).parent.mkdir(parents=True, exist_ok=True)
        (path / name).write_text("x")
    made = tmp_path_factory.mktemp("copy")
    copies.overridden(path, made)
    found = {str(each.relative_to(made)) for each in made.rglob("*") if each.is_file()}
    assert found == {"layers_services.yaml", "network.yaml", "workflow.yaml", "vars/vars.yaml", "scripts/a/b.sh"}
    (path / "scripts/link").symlink_to("/etc/passwd")
    with pytest.raises(ScenarioError, match="leads out of the scenario"):
        copies.overridden(path, tmp_path_factory.mktemp("other"))


def test_what_the_workflow_sends_by_a_variable_goes_into_the_copy(
    write: Callable[..., Path], tmp_path_factory: pytest.TempPathFactory
) -> None:
    text = (
        "- hosts: '*.horovod.*'\n  vars: {script: run.sh}\n  prepare:\n"
        "  - {copy: {src: '{{ scenario_dir }}/{{ item.from }}', dest: /root}, loop: [{from: .env}, {from: vars}]}\n"
        "  - copy: {src: '{{ scenario_dir }}/{{ script }}', dest: /root}\n"
        "  - copy: {src: '{{ scenario_dir }}/conf/{{ app_conf }}.cfg', dest: /root}\n"
    )
    path = write(layers("name: Horovod"), workflow=text)
    named = {".env", "vars/a.txt", "run.sh", "conf/base.cfg", "conf/nil.cfg"}
    for name in {*named, "other.sh", "conf/base.txt"}:
        (path / name).parent.mkdir(parents=True, exist_ok=True)
        (path / name).write_text("x")
    made = tmp_path_factory.mktemp("copy")
    copies.overridden(path, made)
    found = {str(each.relative_to(made)) for each in made.rglob("*") if each.is_file()}
    assert found == {"layers_services.yaml", "network.yaml", "workflow.yaml", *named}


def test_what_cannot_work_offline_is_named(write: Callable[..., Path]) -> None:
    """A sweep of Weights & Biases, begun by a task or by the scenario's own script; sending that begins none."""
    workflow = """
- hosts: edge.*
  prepare:
  - copy: {src: "{{ scenario_dir }}/launcher.sh", dest: /root/}
  launch:
  - shell: "cd /root && ./launcher.sh a"
  - {name: Sweeps, shell: wandb agent x}
  - shell: "./launcher.sh.old; wandb login"
"""
    path = write(layers("name: Horovod"), workflow=workflow)
    (path / "launcher.sh").write_text("# wandb agent\nwandb sweep sweep.yaml | sh\n")
    sweep = "it begins a sweep of Weights & Biases, which needs the internet, and an account there"
    assert [remark for remark in load(path).remarks if "offline" in remark] == [
        f"workflow.yaml:6: task 'shell' cannot work offline: by launcher.sh, {sweep}",
        f"workflow.yaml:7: task 'Sweeps' cannot work offline: {sweep}",
    ]
