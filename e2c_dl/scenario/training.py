"""The ``env:`` of the Trainer services to a :class:`Training`.

Every Trainer service carries the whole of it (a YAML anchor spares the copies), because plain E2Clab hands each service
its own ``env:`` only. All must agree, but for ``batch_size``: a slow layer may be given less to do.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

from e2c_dl import units
from e2c_dl.scenario.data import IN_FOLDERS, is_import_path, parse_dataset, parse_partition
from e2c_dl.scenario.field import Field, Findings
from e2c_dl.scenario.model import Training
from e2c_dl.scenario.strategy_settings import read_settings

MODELS = ("cnn", "mlp", "resnet", "transformer")
OPTIMIZERS = ("sgd", "adamw")
BATCHINGS = ("fixed", "proportional", "dynamic")
DTYPES = ("float32", "float64")
MAX_ITERATIONS = 10_000_000
MAX_BUCKET_BYTES = 2**30

DEFAULTS: Mapping[str, Any] = {
    "strategy_settings": {},
    "model": "cnn",
    "dataset": "digits",
    "data_dir": None,
    "partition": "iid",
    "iterations": 100,
    "batch_size": 32,  # samples of this host, per iteration
    "batching": "fixed",
    "optimizer": "sgd",
    "learning_rate": 0.05,
    "momentum": 0.0,
    "weight_decay": 0.0,
    "seed": 1,
    "dtype": "float32",
    "evaluate_every": 10,  # iterations; 0: only at the end
    "bucket_bytes": "128KiB",
}
"""What holds where ``env:`` says nothing. The strategy has no default: it is what a scenario is about."""

KEYS = ("strategy", *DEFAULTS)


def read_training(trainers: tuple[Field, ...], strategies: frozenset[str], found: Findings) -> Training | None:
    """The training that all ``trainers``, services by rank, ask for; None after noting why there is none."""
    own = Findings()
    envs = [own.attempt(trainer.required, "env") for trainer in dict.fromkeys(trainers)]
    settings: dict[int, dict[str, Any]] = {}
    for env in envs:
        if env is not None and id(env.value) not in settings:  # an alias is the same value, and said wrong once
            settings[id(env.value)] = _settings(env, strategies, own)
    for env in envs[1:]:
        if not own.errors and env is not None and envs[0] is not None:
            _check_agreement(envs[0], settings[id(envs[0].value)], env, settings[id(env.value)], own)
    found.errors += own.errors
    if own.errors:
        return None
    by_rank = [settings[id(trainer.required("env").value)] for trainer in trainers]
    shared = {key: value for key, value in by_rank[0].items() if key != "batch_size"}
    return Training(**shared, batch_sizes=tuple(each["batch_size"] for each in by_rank))


def default_training(strategy: str) -> Training:
    """What one host trains whose ``env:`` says nothing but its strategy."""
    shared = {key: value for key, value in DEFAULTS.items() if key not in ("batch_size", "bucket_bytes")}
    bucket_bytes = units.parse_size(DEFAULTS["bucket_bytes"])
    return Training(strategy=strategy, **shared, batch_sizes=(DEFAULTS["batch_size"],), bucket_bytes=bucket_bytes)


def _settings(env: Field, strategies: frozenset[str], found: Findings) -> dict[str, Any]:
    """Every key's value, defaults included; notes in ``found`` what is wrong."""
    fields = env.keys(found, known=KEYS, required=["strategy"])
    asked = {key: fields.get(key) or _default(env, key) for key in KEYS if key in fields or key in DEFAULTS}
    before = len(found.errors)
    values = {
        key: found.attempt(_value, key, field, strategies) for key, field in asked.items() if key != "strategy_settings"
    }
    if len(found.errors) == before and "strategy" in values:
        found.attempt(_check_together, asked, values)
        values["strategy_settings"] = found.attempt(
            _strategy_settings, asked["strategy_settings"], str(values["strategy"])
        )
    return values


def _default(env: Field, key: str) -> Field:
    return Field(document=env.document, path=(*env.path, key), value=DEFAULTS[key])


def _strategy_settings(field: Field, strategy: str) -> Mapping[str, Any]:
    return read_settings(field, strategy) if field.value != {} else {}


def _value(key: str, field: Field, strategies: frozenset[str]) -> object:
    if key == "strategy":
        return field.one_of(sorted(strategies))
    choices = {"optimizer": OPTIMIZERS, "batching": BATCHINGS, "dtype": DTYPES}
    if key in choices:
        return field.one_of(choices[key])
    if key in _TEXTS:
        return _TEXTS[key](field)
    if key in _NUMBERS:
        return field.number(*_NUMBERS[key])
    if key == "bucket_bytes" and isinstance(field.value, str):
        size = field.quantity(units.parse_size)
        if size > MAX_BUCKET_BYTES:
            raise field.error("a bucket this large is never full", "write at most 1GiB")
        return size
    return field.integer(*_INTEGERS[key])


def _model(field: Field) -> str:
    return field.text() if is_import_path(field.text()) else field.one_of(MODELS)


def _dataset(field: Field) -> str:
    field.quantity(parse_dataset)
    return field.text()


def _partition(field: Field) -> str:
    field.quantity(parse_partition)
    return field.text()


def _data_dir(field: Field) -> str | None:
    if field.value is None:
        return None
    folder = field.text()
    if not folder.startswith(("/", "~/")):
        remedy = "write an absolute path: it is looked for on every host that trains"
        raise field.error(f"{folder[:60]!r} does not begin with '/' or '~/'", remedy)
    return folder


_TEXTS: Mapping[str, Callable[[Field], str | None]] = {
    "model": _model,
    "dataset": _dataset,
    "partition": _partition,
    "data_dir": _data_dir,
}
_NUMBERS: Mapping[str, tuple[Callable[[float], bool], str]] = {
    "learning_rate": (lambda rate: 0 < rate <= 1000, "above 0, at most 1000"),
    "momentum": (lambda momentum: 0 <= momentum < 1, "from 0 to less than 1"),
    "weight_decay": (lambda decay: 0 <= decay <= 1000, "from 0 to 1000"),
}
_INTEGERS: Mapping[str, tuple[int, int]] = {
    "iterations": (1, MAX_ITERATIONS),
    "batch_size": (1, 1_000_000),
    "seed": (0, 2**32 - 1),
    "evaluate_every": (0, MAX_ITERATIONS),
    "bucket_bytes": (1, MAX_BUCKET_BYTES),
}


def _check_together(fields: Mapping[str, Field], values: Mapping[str, Any]) -> None:
    """Raises: ScenarioError, for keys that are right each by itself, and mean nothing together."""
    if values["optimizer"] != "sgd" and values["momentum"]:
        raise fields["momentum"].error(f"optimizer {values['optimizer']} has no momentum", "remove it, or write sgd")
    in_folder = parse_dataset(values["dataset"]).kind in IN_FOLDERS
    if in_folder and values["data_dir"] is None:
        raise fields["dataset"].error("is read from a folder", "add data_dir: where it stands on every host")
    if not in_folder and values["data_dir"] is not None:
        raise fields["data_dir"].error(f"dataset {values['dataset']} is read from no folder", "remove it")


def _check_agreement(
    first: Field, wanted: Mapping[str, Any], other: Field, got: Mapping[str, Any], found: Findings
) -> None:
    for key in KEYS:
        if key != "batch_size" and wanted[key] != got[key]:
            line = first.document.line(first.path)
            problem = f"{key} is {got[key]}, but {wanted[key]} for the Trainer on line {line}"
            found.errors.append((other.get(key) or other).error(problem, "write one env and alias it: env: *training"))
