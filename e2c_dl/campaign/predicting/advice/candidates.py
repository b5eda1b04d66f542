"""Candidates: strategies with their settings, each with fixed and with dynamic batches.

The grid is each strategy's own (``Strategy.tried``); what the scenario has is always the first. ``--try`` adds to it::

    --try localsgd                                      with its defaults
    --try localsgd:period=8,weights=equal               settings by name
    --try asyncparameterserver:server=4,batching=fixed  batching as a setting
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass

import yaml

from e2c_dl import strategies
from e2c_dl.errors import InputError
from e2c_dl.scenario.documents.field import instead
from e2c_dl.scenario.model import Training
from e2c_dl.strategies.base import Setting
from e2c_dl.strategies.batching import CONTROLLERS, check
from e2c_dl.worlds.virtual.profile import FIXED

BATCHING = "batching"
TRIED_BATCHINGS = (FIXED, "dynamic")


@dataclass(frozen=True, kw_only=True)
class Candidate:
    """One strategy with its settings, those that are not its defaults, and its batching."""

    strategy: str
    settings: tuple[tuple[str, Setting], ...] = ()  # sorted by name
    batching: str = FIXED

    @classmethod
    def of(cls, strategy: str, settings: Mapping[str, Setting], batching: str) -> Candidate:
        """Settings that are as the defaults are left out, so that equal candidates are equal."""
        defaults = strategies.describe(strategy).settings
        chosen = {name: value for name, value in settings.items() if defaults.get(name) != value}
        return cls(strategy=strategy, settings=tuple(sorted(chosen.items())), batching=batching)

    def __str__(self) -> str:
        said = [f"{name} {value}" for name, value in self.settings]
        return ", ".join([self.strategy, *said, *([f"batching {self.batching}"] if self.batching != FIXED else [])])


def candidates(
    training: Training, layers: Sequence[str], more: Iterable[str], total_samples: int
) -> tuple[Candidate, ...]:
    """What is tried for ``training``, whose rank r is in ``layers[r]``; ``more`` as ``--try`` has it. No two are equal.

    ``total_samples``: that each trains on, all ranks together. What would never exchange anything is not among them.

    Raises: InputError, one line.
    """
    _check(training.strategy, training.strategy_settings, training.batching)
    iterations = max(1, total_samples // sum(training.batch_sizes))  # whatever ends the training
    own = Candidate.of(training.strategy, training.strategy_settings, training.batching)
    return tuple(dict.fromkeys([own, *map(_asked, more), *_grid(layers, iterations)]))


def _grid(layers: Sequence[str], iterations: int) -> Iterator[Candidate]:
    for name in strategies.names():
        for settings in strategies.load(name).tried(layers, iterations):
            for batching in TRIED_BATCHINGS:
                if batching == FIXED or not strategies.load(name)(**settings).fixed_batches:
                    yield Candidate.of(name, settings, batching)


def _asked(text: str) -> Candidate:
    where = f"--try {text[:80]}"
    name, _, said = text.partition(":")
    try:
        known = strategies.describe(name.strip()).settings
    except InputError as error:
        raise InputError(f"{where}: {error}") from error
    settings: dict[str, Setting] = {}
    for part in filter(None, (part.strip() for part in said.split(","))):
        key, equals, value = (each.strip() for each in part.partition("="))
        if key not in (*known, BATCHING):
            raise InputError(f"{where}: there is no setting {key!r}; {instead(key, [*known, BATCHING])}")
        if not equals:
            raise InputError(f"{where}: {key} has no value; write one, such as {key}={known.get(key, FIXED)}")
        settings[key] = _value(where, key, value, known.get(key, FIXED))
    batching = str(settings.pop(BATCHING, FIXED))
    if batching not in CONTROLLERS:
        raise InputError(f"{where}: batching {batching!r} does not exist; {instead(batching, sorted(CONTROLLERS))}")
    try:
        _check(name.strip(), settings, batching)
    except InputError as error:
        raise InputError(f"{where}: {error}") from error
    return Candidate.of(name.strip(), settings, batching)


def _check(name: str, settings: Mapping[str, Setting], batching: str) -> None:
    """Raises: InputError, if the strategy cannot be compared with others so."""
    strategy = strategies.load(name)(**settings)  # thrown away: only it knows what it refuses
    check(strategy, batching)
    if strategy.grows_batches:
        raise InputError(f"batches of {name} grow, and what is compared has equal samples; leave growth_period out")


def _value(where: str, key: str, text: str, default: Setting) -> Setting:
    """``text`` as a value of the kind of ``default``."""
    try:
        value = yaml.safe_load(text)
    except yaml.YAMLError:
        value = None
    if isinstance(default, float) and type(value) is int:
        value = float(value)
    if type(value) is not type(default):
        raise InputError(f"{where}: {key}: {text[:40]!r} is none of its values; write one such as {default}")
    chosen: Setting = value
    return chosen
