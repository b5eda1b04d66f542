"""Wrong input: one line that names file, key and remedy, exit code 2, and nothing was started."""

import subprocess

import pytest
from whole_runs import COMMAND, scenario

from e2c_dl.testbeds import registry

pytestmark = pytest.mark.local


def changed(folder, name, old, new):
    text = (folder / name).read_text()
    assert old in text
    (folder / name).write_text(text.replace(old, new))


CASES = {
    "misspelt service": ("layers_services.yaml", "{name: Trainer, env: &t", "{name: Trianer, env: &t", "Trainer"),
    "unknown strategy": ("layers_services.yaml", "strategy: allreduce", "strategy: allredcue", "allreduce"),
    "src without a host": ("network.yaml", "src: '*.*'", "src: 'mist.*'", "mist.*"),
    "ambiguous rate": ("network.yaml", "50mbit", "10mbps", "10mbit"),
    "YAML syntax": ("network.yaml", "networks:", "networks: [", "network.yaml"),
    "monitoring": ("layers_services.yaml", "layers:\n", "monitoring: {type: dstat}\nlayers:\n", "monitoring"),
    "kwollect": ("layers_services.yaml", "layers:\n", "kwollect: {metrics: [all]}\nlayers:\n", "kwollect"),
    "provenance": (
        "layers_services.yaml", "layers:\n", "provenance: {provider: g5k, dataflow_spec: x, cluster: y}\nlayers:\n",
        "provenance",
    ),
    "too many hosts": (
        "layers_services.yaml", "- {name: Trainer, env: *t}", "- {name: Trainer, quantity: 110, env: *t}", "memory",
    ),
}  # fmt: skip


@pytest.mark.parametrize("case", CASES)
def test_one_line_and_exit_code_2(case, tmp_path, repository):
    name, old, new, named = CASES[case]
    source = scenario(tmp_path / "s", repository / "experiments/first-light/workflow.yaml")
    changed(source, name, old, new)
    (tmp_path / "artifacts").mkdir()
    _refused(["deploy", source, tmp_path / "artifacts", "--archive", tmp_path / "a"], named)
    assert not (tmp_path / "a").exists()


def test_missing_artifacts(tmp_path, repository):
    source = scenario(tmp_path / "s", repository / "experiments/first-light/workflow.yaml")
    _refused(["deploy", source, tmp_path / "artifacts"], "artifacts")


def test_missing_scenario(tmp_path):
    (tmp_path / "artifacts").mkdir()
    _refused(["deploy", tmp_path / "nowhere", tmp_path / "artifacts"], "nowhere")


def test_missing_tun_device(tmp_path, repository):
    source = scenario(tmp_path / "s", repository / "experiments/first-light/workflow.yaml")
    (tmp_path / "artifacts").mkdir()
    hidden = ("unshare", "--mount", "sh", "-c", 'mount -t tmpfs tmpfs /dev/net && exec "$@"', "sh")
    _refused(["deploy", source, tmp_path / "artifacts"], "/dev/net/tun", prefix=hidden)


def test_unknown_testbed(tmp_path, repository):
    source = scenario(tmp_path / "s", repository / "experiments/first-light/workflow.yaml")
    (tmp_path / "artifacts").mkdir()
    _refused(["deploy", source, tmp_path / "artifacts", "--on", "locla"], "local")


def _refused(arguments, named, prefix=()):
    before = registry.runs()
    done = subprocess.run(
        [*prefix, *COMMAND, *map(str, arguments)], capture_output=True, text=True, check=False, timeout=60
    )
    assert done.returncode == 2, done.stderr
    problems = [line for line in done.stderr.splitlines() if line.startswith("e2c-dl: ")]
    assert len(problems) == 1
    assert named in problems[0]
    assert "Traceback" not in done.stderr
    assert registry.runs() == before
