"""What an ``env:`` may say of training beyond the first keys, and what is wrong with one."""

from __future__ import annotations

from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st
from small_scenario import LAYERS, NETWORK, WORKFLOW, replaced, writer

from e2c_dl.errors import ScenarioError
from e2c_dl.scenario.data import DataSource, Partition, parse_dataset, parse_partition
from e2c_dl.scenario.load import load, local_problems, problems
from e2c_dl.scenario.model import Training
from e2c_dl.scenario.training import DEFAULTS, KEYS, MAX_ITERATIONS, default_training

STRATEGIES = frozenset({"allreduce", "localsgd", "diloco", "parameterserver", "prague"})
SERVICES = frozenset({"Trainer", "Default"})


def written(folder: Path, more: str, strategy: str = "localsgd") -> Path:
    layers = replaced(LAYERS, "{strategy: allreduce}", f"{{strategy: {strategy}, {more}}}")
    return writer(folder)(layers=layers, network=NETWORK, workflow=WORKFLOW)


def training(folder: Path, more: str, strategy: str = "localsgd") -> Training:
    return load(written(folder, more, strategy), SERVICES, strategies=STRATEGIES).training


def test_all_keys_are_read(tmp_path: Path) -> None:
    came = training(
        tmp_path,
        "model: resnet, dataset: 'images:64', data_dir: ~/imagenet, partition: 'classes:0.5', optimizer: adamw, "
        "weight_decay: 0.01, batching: dynamic, strategy_settings: {period: 8, weights: equal}",
    )
    assert (came.model, came.dataset, came.data_dir) == ("resnet", "images:64", "~/imagenet")
    assert (came.partition, came.optimizer, came.weight_decay, came.batching) == (
        "classes:0.5",
        "adamw",
        0.01,
        "dynamic",
    )
    assert came.strategy_settings == {"period": 8, "weights": "equal"}


def test_models_and_data_of_ones_own_are_not_imported(tmp_path: Path) -> None:
    came = training(tmp_path, "model: 'no_such.module:Net', dataset: 'no_such.data:make'")
    assert (came.model, came.dataset) == ("no_such.module:Net", "no_such.data:make")


def test_what_is_not_written_is_as_it_always_was(tmp_path: Path) -> None:
    came = training(tmp_path, "seed: 1")
    assert (came.optimizer, came.weight_decay, came.batching, came.partition) == ("sgd", 0.0, "fixed", "iid")
    assert (came.strategy_settings, came.data_dir) == ({}, None)
    assert came.batch_sizes == (32, 32, 32)
    alone = default_training("localsgd")
    own = [key for key in KEYS if key not in ("batch_size", "updates", "samples", "seconds")]
    assert (alone.batch_sizes, alone.bucket_bytes) == ((32,), came.bucket_bytes)
    assert {key: getattr(alone, key) for key in own} == {key: getattr(came, key) for key in own}


@pytest.mark.parametrize(
    ("more", "key", "problem"),
    [
        ("updates: 0", "updates", "0 is out of range; write a whole number from 1 to"),
        ("seconds: -1", "seconds", "-1 is out of range; write a number above 0"),
        ("iterations: 9, updates: 30", "updates", "iterations and updates each say when training ends; keep one"),
        ("samples: 9, seconds: 30", "seconds", "samples and seconds each say when training ends; keep one of them"),
        ("updates: 2", "updates", "an iteration of each of the 3 ranks takes 3 updates; write at least that many"),
        ("samples: 95", "samples", "an iteration of each of the 3 ranks takes 96 samples; write at least that many"),
        ("optimizer: adam", "optimizer", "'adam' is not known; did you mean 'adamw'?"),
        ("optimizer: adamw, momentum: 0.9", "momentum", "optimizer adamw has no momentum; remove it, or write sgd"),
        ("weight_decay: -1", "weight_decay", "-1 is out of range; write a number from 0 to 1000"),
        ("batching: dynamik", "batching", "'dynamik' is not known; did you mean 'dynamic'?"),
        ("partition: class", "partition", "'class' is not known; write iid, classes:ALPHA, sizes:ALPHA"),
        ("partition: 'classes:0'", "partition", "'classes:0' has no usable alpha; write a number from 0.001"),
        ("partition: 3", "partition", "expected text, not 3"),
        ("model: resnt", "model", "'resnt' is not known; did you mean 'resnet'?"),
        ("model: 'a b:c'", "model", "'a b:c' is not known; write one of cnn, mlp, resnet, transformer"),
        ("dataset: cifar", "dataset", "'cifar' is not known; write digits, cifar10, cifar100, images:SIZE"),
        ("dataset: cifar10", "dataset", "is read from a folder; add data_dir"),
        ("dataset: 'images:0', data_dir: /d", "dataset", "'images:0' names no size; write pixels from 1 to 4096"),
        ("dataset: 'teacher:5'", "dataset", "'teacher:5' is not understood; write samples"),
        ("dataset: 'teacher:9:1x1x1:2'", "dataset", "is out of range; write at least 10 samples"),
        ("dataset: 'teacher:99999999:99x99x99:2'", "dataset", "is out of range; write at least 10 samples"),
        ("data_dir: /d", "data_dir", "dataset digits is read from no folder; remove it"),
        (
            "dataset: cifar10, data_dir: data",
            "data_dir",
            "'data' does not begin with '/' or '~/'; write an absolute path",
        ),
        ("strategy_settings: {perod: 3}", "strategy_settings.perod", "unknown key; did you mean 'period'?"),
        ("strategy_settings: {period: 2.5}", "strategy_settings.period", "expected a whole number, not 2.5"),
        ("strategy_settings: {period: yes}", "strategy_settings.period", "expected a whole number, not true"),
        ("strategy_settings: {weights: 3}", "strategy_settings.weights", "expected text, not 3"),
        ("strategy_settings: 3", "strategy_settings", "expected a mapping, not 3"),
        ("strategy_settings: {period: 0}", "strategy_settings", "period"),
    ],
)
def test_what_is_wrong_is_named_with_key_and_remedy(tmp_path: Path, more: str, key: str, problem: str) -> None:
    found = problems(written(tmp_path, more), SERVICES, strategies=STRATEGIES)
    assert len(found) == 1, found
    assert found[0].key.endswith(f"env.{key}")
    assert problem in str(found[0])
    assert "\n" not in str(found[0])


def test_settings_of_kind_number_may_be_whole(tmp_path: Path) -> None:
    came = training(tmp_path, "strategy_settings: {outer_learning_rate: 1, outer_momentum: 0.5}", "diloco")
    assert came.strategy_settings == {"outer_learning_rate": 1.0, "outer_momentum": 0.5}


def test_what_a_strategy_refuses_is_told_in_its_words(tmp_path: Path) -> None:
    more = "strategy_settings: {outer_momentum: 2}"
    with pytest.raises(ScenarioError, match="outer_momentum 2.0; write a rate above 0 and a momentum"):
        training(tmp_path, more, "diloco")


def test_batching_is_refused_where_ranks_wait_in_an_order_of_their_own(tmp_path: Path) -> None:
    with pytest.raises(
        ScenarioError, match=r"batching: with these settings, ranks of prague .*; write batching: fixed"
    ):
        training(tmp_path, "batching: dynamic", "prague")
    static = training(tmp_path, "batching: dynamic, strategy_settings: {groups: static}", "prague")
    assert static.batching == "dynamic"


def test_a_setting_that_became_a_strategy_is_told_which(tmp_path: Path) -> None:
    with pytest.raises(
        ScenarioError, match=r"strategy_settings.mode: is no longer .*; choose by .*asyncparameterserver"
    ):
        training(tmp_path, "strategy_settings: {mode: asynchronous}", "parameterserver")


def test_trainers_must_agree_on_the_strategys_settings_too(tmp_path: Path) -> None:
    layers = replaced(LAYERS, "env: *t", "env: {strategy: localsgd, strategy_settings: {period: 3}}")
    layers = replaced(layers, "strategy: allreduce", "strategy: localsgd")
    path = writer(tmp_path)(layers=layers, network=NETWORK, workflow=WORKFLOW)
    (problem,) = problems(path, SERVICES, strategies=STRATEGIES)
    assert "strategy_settings is {'period': 3}, but {}" in str(problem)


def test_every_default_is_a_field() -> None:
    fields = set(Training.__dataclass_fields__)
    budgets = {"updates", "samples", "seconds"}  # all are read into one field
    assert set(DEFAULTS) - {"batch_size"} - budgets == fields - {"strategy", "batch_sizes", "budget", "code"}


@pytest.mark.parametrize(
    ("text", "source"),
    [
        ("cifar100", DataSource(kind="cifar100")),
        ("images:224", DataSource(kind="images", pixels=224)),
        ("teacher:5000:3x32x16:10", DataSource(kind="teacher", samples=5000, shape=(3, 32, 16), classes=10)),
        ("a.b:c", DataSource(kind="imported", import_path="a.b:c")),
    ],
)
def test_datasets(text: str, source: DataSource) -> None:
    assert parse_dataset(text) == source


def test_partitions() -> None:
    assert parse_partition("iid") == Partition(kind="iid")
    assert parse_partition("sizes:2") == Partition(kind="sizes", alpha=2.0)


@given(text=st.one_of(st.text(max_size=40), st.from_regex(r"(images|teacher|classes|sizes)[:x0-9.]{0,20}")))
def test_parsers_return_or_say_what_to_write(text: str) -> None:
    for parse in (parse_dataset, parse_partition):
        told = ""
        try:
            parse(text)
        except ValueError as error:
            told = str(error)
        assert not told or "; write " in told


@pytest.mark.parametrize(
    ("more", "in_step", "most", "said"),
    [
        ("iterations: 7", 7, 7, "7 iterations"),
        ("updates: 10", 4, 8, "10 updates of all ranks together"),
        ("samples: 97", 2, 2, "97 samples of all ranks together"),
        ("seconds: 90", None, None, "90.0 s"),
    ],
)
def test_budgets_count_for_all_ranks_together(
    tmp_path: Path, more: str, in_step: int | None, most: int | None, said: str
) -> None:
    for name in "abc":
        (tmp_path / name).mkdir()
    asynchronous = load(written(tmp_path / "a", more, "adpsgd"), SERVICES, strategies=STRATEGIES | {"adpsgd"}).training
    together = training(tmp_path / "b", more)
    assert together.iterations == (in_step or MAX_ITERATIONS)
    assert asynchronous.iterations == (most or MAX_ITERATIONS)
    assert together.ends.described() == asynchronous.ends.described() == said
    of_speed = written(tmp_path / "c", f"{more}, batching: dynamic", "adpsgd")  # speeds are exchanged: in step
    assert load(of_speed, SERVICES, strategies=STRATEGIES | {"adpsgd"}).training.iterations == together.iterations


def test_a_device_that_torch_here_has_no_build_for_is_told_before_anything_starts(tmp_path: Path) -> None:
    pytest.importorskip("torch")
    from torch import version

    scenario = load(written(tmp_path, "device: cuda"), SERVICES, strategies=STRATEGIES)
    assert scenario.training.device == "cuda"
    assert local_problems(scenario, elsewhere=True) == ()
    found = [str(problem) for problem in local_problems(scenario, elsewhere=False)]
    if version.cuda is None and version.hip is None:
        assert found == [
            f"layers_services.yaml: env.device: cuda: torch {version.__version__} on this machine is built without "
            "CUDA; install a build with it, or write device: cpu"
        ]
    else:
        assert found == []


def test_shapes_are_computed_on_nothing(tmp_path: Path) -> None:
    (found,) = problems(written(tmp_path, "device: cuda, mathematics: shapes"), SERVICES, strategies=STRATEGIES)
    assert "env.device: mathematics shapes computes on nothing; remove it" in str(found)


def test_shapes_alone_are_refused_where_sizes_depend_on_values(tmp_path: Path) -> None:
    names = STRATEGIES | {"gaia"}
    (found,) = problems(written(tmp_path, "mathematics: shapes", "gaia"), SERVICES, strategies=names)
    assert "env.strategy_settings: how much is significant depends on values" in str(found)
    stated = written(tmp_path, "mathematics: shapes, strategy_settings: {selectivity: 0.1}", "gaia")
    assert problems(stated, SERVICES, strategies=names) == ()
