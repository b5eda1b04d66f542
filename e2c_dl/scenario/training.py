"""The ``env:`` of the Trainer services to a :class:`Training`.

Every Trainer service carries the whole of it (a YAML anchor spares the copies), because plain E2Clab hands each service
its own ``env:`` only. All must agree, but for ``batch_size``: a slow layer may be given less to do.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from e2c_dl import units
from e2c_dl.scenario.field import Field, Findings
from e2c_dl.scenario.model import Training

MODELS = ("cnn",)
DATASETS = ("digits",)
DTYPES = ("float32", "float64")
MAX_ITERATIONS = 10_000_000
MAX_BUCKET_BYTES = 2**30

DEFAULTS: Mapping[str, Any] = {
    "model": "cnn",
    "dataset": "digits",
    "iterations": 100,
    "batch_size": 32,  # samples of this host, per iteration
    "learning_rate": 0.05,
    "momentum": 0.0,
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


def _settings(env: Field, strategies: frozenset[str], found: Findings) -> dict[str, Any]:
    """Every key's value, defaults included; notes in ``found`` what is wrong."""
    fields = env.keys(found, known=KEYS, required=["strategy"])
    return {
        key: found.attempt(_value, key, fields[key] if key in fields else _default(env, key), strategies)
        for key in KEYS
        if key in fields or key in DEFAULTS
    }


def _default(env: Field, key: str) -> Field:
    return Field(document=env.document, path=(*env.path, key), value=DEFAULTS[key])


def _value(key: str, field: Field, strategies: frozenset[str]) -> object:
    if key == "strategy":
        return field.one_of(sorted(strategies))
    choices = {"model": MODELS, "dataset": DATASETS, "dtype": DTYPES}
    if key in choices:
        return field.one_of(choices[key])
    if key == "learning_rate":
        return field.number(lambda rate: 0 < rate <= 1000, "above 0, at most 1000")
    if key == "momentum":
        return field.number(lambda momentum: 0 <= momentum < 1, "from 0 to less than 1")
    if key == "bucket_bytes" and isinstance(field.value, str):
        size = field.quantity(units.parse_size)
        if size > MAX_BUCKET_BYTES:
            raise field.error("a bucket this large is never full", "write at most 1GiB")
        return size
    low, high = {
        "iterations": (1, MAX_ITERATIONS),
        "batch_size": (1, 1_000_000),
        "seed": (0, 2**32 - 1),
        "evaluate_every": (0, MAX_ITERATIONS),
        "bucket_bytes": (1, MAX_BUCKET_BYTES),
    }[key]
    return field.integer(low, high)


def _check_agreement(
    first: Field, wanted: Mapping[str, Any], other: Field, got: Mapping[str, Any], found: Findings
) -> None:
    for key in KEYS:
        if key != "batch_size" and wanted[key] != got[key]:
            line = first.document.line(first.path)
            problem = f"{key} is {got[key]}, but {wanted[key]} for the Trainer on line {line}"
            found.errors.append((other.get(key) or other).error(problem, "write one env and alias it: env: *training"))
