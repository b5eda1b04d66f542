"""The scenarios that ship: first-light and the template of init."""

import errno
import shutil
from pathlib import Path

import pytest
import yaml

from e2c_dl.errors import InputError
from e2c_dl.resources import template_dir
from e2c_dl.scenario.folder.copies import init
from e2c_dl.scenario.load import load, local_problems, problems

FIRST_LIGHT = Path(__file__).parents[3] / "experiments" / "first-light"
WORKFLOW = "- hosts: '*.trainer.*'\n  launch: []\n"


@pytest.fixture
def first_light(tmp_path):
    """The shipped scenario with a workflow of its own."""
    for name in ("layers_services", "network", "emulation"):
        shutil.copy(FIRST_LIGHT / f"{name}.yaml", tmp_path)
    (tmp_path / "workflow.yaml").write_text(WORKFLOW)
    return tmp_path


def read(path, **more):
    return load(path, frozenset({"Trainer"}), strategies=frozenset({"allreduce"}), used_links=ring, **more)


def ring(_name, size):
    return [(rank, (rank + 1) % size) for rank in range(size)]


def test_first_light_has_six_ranks_in_a_ring_of_the_designed_links(first_light):
    scenario = read(first_light)
    assert scenario.topology.names == ("edge-1", "edge-2", "fog-1", "fog-2", "cloud-1", "cloud-2")
    assert [host.rank for host in scenario.topology.hosts] == list(range(6))
    ids = [host.service_id for host in scenario.topology.hosts]
    assert ids == ["1_1_1", "1_1_2", "2_1_1", "2_1_2", "3_1_1", "3_1_2"]
    assert scenario.topology.host("fog-2").role == "fog.trainer.1.2"
    names = scenario.topology.names
    designed = [scenario.topology.link(names[i], names[(i + 1) % 6]) for i in range(6)]
    assert [link.rate_bps for link in designed] == [40e6, 40e6, 60e6, 60e6, 80e6, 40e6]
    assert [link.delay_s for link in designed] == pytest.approx([0.002, 0.005, 0.001, 0.010, 0.001, 0.015])
    assert all(link.loss == 0 for link in designed)


def test_first_light_trains_as_its_env_says(first_light):
    training = read(first_light).training
    assert (training.strategy, training.model, training.dataset, training.dtype) == (
        "allreduce", "cnn", "digits", "float32",
    )  # fmt: skip
    assert (training.iterations, training.batch_sizes, training.learning_rate) == (60, (32,) * 6, 0.05)
    assert (training.momentum, training.seed, training.evaluate_every, training.bucket_bytes) == (0.9, 1, 20, 131072)


def test_first_light_slows_the_edge_by_design_and_one_host_and_one_used_link_on_purpose(first_light):
    scenario = read(first_light)
    assert [scenario.compute.factor(name) for name in scenario.topology.names] == [1.5, 1.5, 1, 1, 1, 1]
    ((host, factor),) = scenario.injected.compute.items()
    ((pair, rate_factor),) = scenario.injected.links.items()
    assert factor == 3
    assert scenario.emulated_factor(host) == 3 * scenario.compute.factor(host)
    assert rate_factor == 0.3
    names = scenario.topology.names
    assert pair in [(names[i], names[(i + 1) % 6]) for i in range(6)]
    designed = scenario.topology.link(*pair).rate_bps
    assert scenario.emulated_topology().link(*pair).rate_bps == pytest.approx(0.3 * designed)


def test_first_light_is_called_as_its_folder_or_as_asked(first_light):
    assert read(first_light).name == first_light.name
    assert read(first_light, name="mine").name == "mine"


def test_the_shipped_folders_load_as_they_stand():
    assert problems(FIRST_LIGHT) == ()
    assert local_problems(read(FIRST_LIGHT), elsewhere=False) == ()


@pytest.mark.parametrize("folder", [FIRST_LIGHT, template_dir()])
def test_e2clab_accepts_the_files(folder):
    is_valid_conf = pytest.importorskip("e2clab.schemas").is_valid_conf
    for name in ("layers_services", "network", "workflow"):
        if (folder / f"{name}.yaml").exists():
            assert is_valid_conf(yaml.safe_load((folder / f"{name}.yaml").read_text()), name), name


def test_init_writes_a_scenario_without_problems(tmp_path):
    written = init(tmp_path / "new" / "mine")
    assert {"layers_services.yaml", "network.yaml", "emulation.yaml"} <= {file.name for file in written}
    if not (tmp_path / "new" / "mine" / "workflow.yaml").exists():
        (tmp_path / "new" / "mine" / "workflow.yaml").write_text(WORKFLOW)
    assert problems(tmp_path / "new" / "mine", frozenset({"Trainer"}), strategies=frozenset({"allreduce"})) == ()


def test_init_says_every_key_there_is():
    from e2c_dl.scenario.training import DEFAULTS

    env = yaml.safe_load((template_dir() / "layers_services.yaml").read_text())["layers"][0]["services"][0]["env"]
    assert set(env) == {"strategy", *DEFAULTS}


def test_init_overwrites_nothing(tmp_path):
    (tmp_path / "network.yaml").write_text("mine")
    with pytest.raises(InputError, match=r"network\.yaml is there already"):
        init(tmp_path)
    assert [file.name for file in tmp_path.iterdir()] == ["network.yaml"]
    assert (tmp_path / "network.yaml").read_text() == "mine"


def test_init_leaves_nothing_on_a_full_disk(tmp_path, monkeypatch):
    def full(_: Path, *args: object, **options: object) -> object:
        raise OSError(errno.ENOSPC, "No space left on device")

    monkeypatch.setattr(Path, "open", full)
    with pytest.raises(InputError, match="No space left on device; name another folder"):
        init(tmp_path / "new")
    assert list(tmp_path.iterdir()) == []


def test_init_refuses_a_place_it_cannot_write(tmp_path):
    (tmp_path / "file").write_text("")
    with pytest.raises(InputError, match="name another folder"):
        init(tmp_path / "file" / "scenario")
