"""Whether a scenario's ``strategy_settings`` fit its strategy; the strategies' files say all, and need no torch."""

from __future__ import annotations

from collections.abc import Mapping

from e2c_dl import strategies
from e2c_dl.errors import InputError
from e2c_dl.scenario.field import Field, Findings, described
from e2c_dl.strategies.base import Setting


def read_settings(field: Field, strategy: str) -> Mapping[str, Setting]:
    """The settings in ``field``, of the strategy called ``strategy``, which exists; tried on its class.

    Raises: ScenarioError, the first that is wrong: an unknown key, a value of another kind than its default, or one
    that the strategy refuses.
    """
    known = strategies.describe(strategy).settings
    for key, remedy in strategies.load(strategy).former_settings.items():
        if isinstance(field.value, dict) and key in field.value:
            raise field.required(key).error(f"is no longer a setting of {strategy!r}", remedy)
    found = Findings()
    fields = field.keys(found, known=known)
    if found.errors:
        raise found.errors[0]
    settings = {key: _value(inner, known[key]) for key, inner in fields.items()}
    try:
        strategies.load(strategy)(**settings)
    except InputError as error:
        problem, _, remedy = str(error).rpartition("; ")
        raise field.error(problem.removeprefix(f"strategy {strategy!r}: "), remedy) from error
    return settings


def _value(field: Field, default: Setting) -> Setting:
    """The value, of the kind of ``default``. Raises: ScenarioError."""
    value = field.value
    if isinstance(default, bool):
        return field.boolean()
    if isinstance(default, str):
        return field.text()
    if isinstance(default, int) and (isinstance(value, bool) or not isinstance(value, int)):
        raise field.error(f"expected a whole number, not {described(value)}", f"write one, such as {default}")
    number = field.number(lambda _: True, f"such as {default}")
    return int(number) if isinstance(default, int) else number
