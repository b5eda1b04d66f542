"""The ``env:`` of the Trainer services to a :class:`Training`.

Every Trainer service carries the whole of it (a YAML anchor spares the copies), because plain E2Clab hands each service
its own ``env:`` only. All must agree, but for ``batch_size``: a slow layer may be given less to do.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import replace
from typing import Any

from e2c_dl import strategies, units
from e2c_dl.errors import InputError
from e2c_dl.scenario.budget import Budget, Unit
from e2c_dl.scenario.data import IN_FOLDERS, is_import_path, parse_dataset, parse_partition
from e2c_dl.scenario.documents.field import Field, Findings, described
from e2c_dl.scenario.documents.keys import integer, number, one_of
from e2c_dl.scenario.model import REAL, SHAPES, Training
from e2c_dl.strategies import batching
from e2c_dl.strategies.base import Setting, Strategy
from e2c_dl.strategies.compression import COMPRESSORS, NONE
from e2c_dl.strategies.seam import settings_of

MODELS = ("cnn", "mlp", "resnet", "transformer")
OPTIMIZERS = ("sgd", "adamw")
BATCHINGS = ("fixed", "proportional", "dynamic")
DTYPES = ("float32", "float64")
DEVICES = ("cpu", "cuda")
MAX_ITERATIONS = 10_000_000
MAX_UPDATES = MAX_ITERATIONS * 1000
MAX_SAMPLES = 10**15
MAX_SECONDS = 1_000_000
MAX_BUCKET_BYTES = 2**30

_BUDGETS = ("updates", "samples", "seconds")  # instead of iterations


def read_training(trainers: tuple[Field, ...], names: frozenset[str], found: Findings) -> Training | None:
    """The training that all ``trainers``, services by rank, ask for; None after noting why there is none.

    ``names`` are those of the strategies there are.
    """
    own = Findings()
    envs = [own.attempt(trainer.required, "env") for trainer in dict.fromkeys(trainers)]
    settings: dict[int, dict[str, Any]] = {}
    for env in envs:
        if env is not None and id(env.value) not in settings:  # an alias is the same value, and said wrong once
            settings[id(env.value)] = _settings(env, names, own)
    for env in envs[1:]:
        if not own.errors and env is not None and envs[0] is not None:  # wrong values would disagree as well
            _check_agreement(envs[0], settings[id(envs[0].value)], env, settings[id(env.value)], own)
    found.take(own)
    if own.errors:
        return None
    by_rank = [settings[id(trainer.required("env").value)] for trainer in trainers]
    shared = {key: value for key, value in by_rank[0].items() if key not in ("batch_size", *_BUDGETS)}
    training = Training(**shared, batch_sizes=tuple(each["batch_size"] for each in by_rank))
    given = next((key for key in _BUDGETS if by_rank[0][key] is not None), None)
    return training if given is None else found.attempt(_budgeted, training, trainers[0].required("env"), given)


def _budgeted(training: Training, env: Field, key: str) -> Training:
    """``training``, ended by the budget at ``key``. Raises: ScenarioError, if not every rank gets an iteration."""
    field, sizes = env.required(key), training.batch_sizes
    budget = Budget(unit=Unit(key), amount=float(field.number(lambda _: True, "above 0")))
    if budget.amount < sum(budget.costs(sizes)):
        problem = f"an iteration of each of the {len(sizes)} ranks takes {sum(budget.costs(sizes))} {key}"
        raise field.error(problem, "write at least that many")
    if budget.unit is Unit.SAMPLES and _of(training).grows_batches:  # nobody knows beforehand how many iterations
        raise field.error(f"batches of {training.strategy} grow", "write iterations or seconds instead")
    training = replace(training, budget=budget)
    return replace(training, iterations=iterations_of(training))


def iterations_of(training: Training) -> int:
    """How many each rank has; where its budget ends ``training``, the most that one rank may come to."""
    own_pace = batching.own_pace(_of(training), training.batching)
    sizes = training.batch_sizes
    most = training.ends.most(sizes) if own_pace else training.ends.in_step(sizes)
    return MAX_ITERATIONS if most is None else most


def _of(training: Training) -> Strategy:
    return strategies.load(training.strategy)(**training.strategy_settings)


def default_training(strategy: str) -> Training:
    """The training of one host whose ``env:`` says nothing but its strategy."""
    shared = {key: value for key, value in DEFAULTS.items() if key not in ("batch_size", "bucket_bytes", *_BUDGETS)}
    bucket_bytes = units.parse_size(DEFAULTS["bucket_bytes"])
    return Training(strategy=strategy, **shared, batch_sizes=(DEFAULTS["batch_size"],), bucket_bytes=bucket_bytes)


def _settings(env: Field, names: frozenset[str], found: Findings) -> dict[str, Any]:
    """Every key's value, defaults included; notes in ``found`` what is wrong."""
    readers = {"strategy": one_of(sorted(names)).read, **{key: read for key, (_, read) in _ENV.items() if read}}
    fields = env.keys(found, known=KEYS, required=["strategy"])
    found.attempt(_check_one_end, fields)
    # A default stands where the key would: an error about it, such as a missing data_dir, names a line that is there.
    absent = {key: replace(env, path=(*env.path, key), value=DEFAULTS[key]) for key in DEFAULTS if key not in fields}
    asked = {key: field for key in KEYS if (field := fields.get(key) or absent.get(key))}
    before = len(found.errors)
    values = {key: found.attempt(readers[key], field) for key, field in asked.items() if key in readers}
    if len(found.errors) == before and "strategy" in values:  # sound one by one, so they may be asked together
        found.attempt(_check_together, asked, values)
        own = asked["strategy_settings"]  # read last: only a strategy that is known can say what is right
        values["strategy_settings"] = found.attempt(_strategy_settings, own, str(values["strategy"]))
        own = asked["compression_settings"]
        values["compression_settings"] = found.attempt(_compression_settings, own, str(values["compression"]))
        if len(found.errors) == before:
            found.attempt(_check_strategy, asked, values)
    return values


def _model(field: Field) -> str:
    return field.text() if is_import_path(field.text()) else field.one_of(MODELS)


def _spelled(parse: Callable[[str], object]) -> Callable[[Field], str]:
    """Text that ``parse`` understands, as it stands: who trains parses it again."""

    def read(field: Field) -> str:
        field.quantity(parse)
        return field.text()

    return read


def _data_dir(field: Field) -> str | None:
    if field.value is None:
        return None
    folder = field.text()
    if not folder.startswith(("/", "~/")):  # workers start in folders of their own
        remedy = "write an absolute path: it is looked for on every host that trains"
        raise field.error(f"{folder[:60]!r} does not begin with '/' or '~/'", remedy)
    return folder


def _bucket_bytes(field: Field) -> int:
    if not isinstance(field.value, str):  # a bare number is bytes
        return field.integer(1, MAX_BUCKET_BYTES)
    size = field.quantity(units.parse_size)
    if size > MAX_BUCKET_BYTES:
        raise field.error("a bucket this large is never full", "write at most 1GiB")
    return size


def _check_one_end(fields: Mapping[str, Field]) -> None:
    """Raises: ScenarioError, if more than one key says when training ends."""
    given = [key for key in ("iterations", *_BUDGETS) if key in fields and fields[key].value is not None]
    if len(given) > 1:
        raise fields[given[1]].error(f"{' and '.join(given)} each say when training ends", "keep one of them")


def _optional(read: Callable[[Field], object], default: object = None) -> Callable[[Field], object]:
    """As ``read`` does; ``default`` where null is written."""
    return lambda field: default if field.value is None else read(field)


# Key -> what holds where ``env:`` says nothing, and how its value is read. Behind the readers, which it names.
_ENV: Mapping[str, tuple[object, Callable[[Field], object] | None]] = {
    "strategy_settings": ({}, None),
    "model": ("cnn", _model),
    "dataset": ("digits", _spelled(parse_dataset)),
    "data_dir": (None, _data_dir),
    "partition": ("iid", _spelled(parse_partition)),
    "mathematics": (REAL, one_of((REAL, SHAPES)).read),
    "device": ("cpu", one_of(DEVICES).read),  # what every rank computes on: cuda, one GPU for each
    "iterations": (100, _optional(integer(1, MAX_ITERATIONS).read, 100)),  # of each rank
    "updates": (None, _optional(integer(1, MAX_UPDATES).read)),  # gradients applied, of all ranks together
    "samples": (None, _optional(integer(1, MAX_SAMPLES).read)),  # trained on, of all ranks together
    "seconds": (None, _optional(number(0, MAX_SECONDS, above=True).read)),  # of training
    "batch_size": (32, integer(1, 1_000_000).read),  # samples of this host, per iteration
    "batching": ("fixed", one_of(BATCHINGS).read),
    "compression": (NONE, one_of((NONE, *sorted(COMPRESSORS))).read),
    "compression_settings": ({}, None),
    "optimizer": ("sgd", one_of(OPTIMIZERS).read),
    "learning_rate": (0.05, number(0, 1000, above=True).read),
    "momentum": (0.0, number(0, 1, below=True).read),
    "weight_decay": (0.0, number(0, 1000).read),
    "seed": (1, integer(0, 2**32 - 1).read),
    "dtype": ("float32", one_of(DTYPES).read),
    "evaluate_every": (10, integer(0, MAX_ITERATIONS).read),  # iterations; 0: only at the end
    "bucket_bytes": ("128KiB", _bucket_bytes),
}
DEFAULTS: Mapping[str, Any] = {key: default for key, (default, _) in _ENV.items()}
"""What holds where ``env:`` says nothing. The strategy has no default: it is what a scenario is about."""
KEYS = ("strategy", *DEFAULTS)


def _check_together(fields: Mapping[str, Field], values: Mapping[str, Any]) -> None:
    """Raises: ScenarioError, for keys that are right each by itself, and mean nothing together."""
    if values["optimizer"] != "sgd" and values["momentum"]:
        raise fields["momentum"].error(f"optimizer {values['optimizer']} has no momentum", "remove it, or write sgd")
    if values["mathematics"] == SHAPES and values["device"] != "cpu":
        raise fields["device"].error("mathematics shapes computes on nothing", "remove it, or write mathematics: real")
    in_folder = parse_dataset(values["dataset"]).kind in IN_FOLDERS
    if in_folder and values["data_dir"] is None:
        raise fields["dataset"].error("is read from a folder", "add data_dir: where it stands on every host")
    if not in_folder and values["data_dir"] is not None:  # likely another data set was meant
        raise fields["data_dir"].error(f"dataset {values['dataset']} is read from no folder", "remove it")


def _check_strategy(fields: Mapping[str, Field], values: Mapping[str, Any]) -> None:
    """Raises: ScenarioError, where the strategy cannot train with its batches divided so, or by shapes alone."""
    name, shapes = values["batching"], values["mathematics"] == SHAPES
    if name == DEFAULTS["batching"] and not shapes and not values["strategy_settings"]:
        return  # as most scenarios have it: the strategy's file need not be imported
    strategy = strategies.load(values["strategy"])(**values["strategy_settings"])
    with _at(fields["batching"], f"batching {name!r}: "):
        batching.check(strategy, name)
    if shapes:
        with _at(fields["strategy_settings"], f"strategy {strategy.name!r}: "):
            strategy.check_shapes()


def _check_agreement(
    first: Field, wanted: Mapping[str, Any], other: Field, got: Mapping[str, Any], found: Findings
) -> None:
    for key in KEYS:
        if key != "batch_size" and wanted[key] != got[key]:
            line = first.document.line(first.path)
            problem = f"{key} is {got[key]}, but {wanted[key]} for the Trainer on line {line}"
            found.errors.append((other.get(key) or other).error(problem, "write one env and alias it: env: *training"))


def _strategy_settings(field: Field, strategy: str) -> Mapping[str, Setting]:
    """The settings in ``field``, of the strategy called ``strategy``, which exists; tried on its class.

    Raises: ScenarioError, the first that is wrong: an unknown key, a value of another kind than its default, or one
    that the strategy refuses.
    """
    if field.value == {}:
        return {}  # as most scenarios have it: the strategy's file need not be imported
    known = strategies.describe(strategy).settings
    for key, remedy in strategies.load(strategy).former_settings.items():
        if isinstance(field.value, dict) and key in field.value:
            raise field.required(key).error(f"is no longer a setting of {strategy!r}", remedy)
    return _tried(field, known, strategies.load(strategy), f"strategy {strategy!r}: ")


def _compression_settings(field: Field, name: str) -> Mapping[str, Setting]:
    """The settings in ``field``, of the compressor called ``name``, which exists. Raises: ScenarioError."""
    if name == NONE:
        if field.value:
            raise field.error(f"compression {NONE!r} has no settings", "remove them, or choose a compression")
        return {}
    return _tried(field, settings_of(COMPRESSORS[name]), COMPRESSORS[name], f"compression {name!r}: ")


def _tried(
    field: Field, known: Mapping[str, Setting], made: Callable[..., object], prefix: str
) -> Mapping[str, Setting]:
    """The settings in ``field``, of those ``known``; ``made`` is called with them, as it alone knows what it refuses.

    Raises: ScenarioError.
    """
    found = Findings()
    fields = field.keys(found, known=known)
    found.check()
    settings = {key: _setting(inner, known[key]) for key, inner in fields.items()}
    with _at(field, prefix):
        made(**settings)
    return settings


@contextmanager
def _at(field: Field, prefix: str) -> Iterator[None]:
    """What is raised inside as InputError, told of ``field`` instead of by ``prefix``. Raises: ScenarioError."""
    try:
        yield
    except InputError as error:
        problem, _, remedy = str(error).rpartition("; ")
        raise field.error(problem.removeprefix(prefix), remedy) from error


def _setting(field: Field, default: Setting) -> Setting:
    """The value, of the kind of ``default``. Raises: ScenarioError."""
    value = field.value
    if isinstance(default, bool):  # before int, which it is to Python
        return field.boolean()
    if isinstance(default, str):
        return field.text()
    if isinstance(default, int) and (isinstance(value, bool) or not isinstance(value, int)):
        raise field.error(f"expected a whole number, not {described(value)}", f"write one, such as {default}")
    number = field.number(lambda _: True, f"such as {default}")
    return int(number) if isinstance(default, int) else number
