"""One value of a scenario's file and where it stands, with the questions that checking asks of it.

::

    rate = parse(rule.required("rate").text())     the value, or a ScenarioError that names file, line and key
    rule.keys(found, known=..., required=...)      values by key; misspelt keys are named with the closest that exists

A step that raises stops there; :class:`Findings` collects what several steps raise, so that a user sees all at once.
"""

from __future__ import annotations

import difflib
import math
import re
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, field, replace
from typing import ParamSpec, TypeVar

from e2c_dl.errors import ScenarioError
from e2c_dl.scenario.documents.document import Document, KeyPath

T = TypeVar("T")
P = ParamSpec("P")

_PLAIN_KEY = re.compile(r"[A-Za-z0-9_.-]{1,60}")


@dataclass
class Findings:
    """Errors so far, in the order they were found, and what is only worth a remark. Steps append to it."""

    errors: list[ScenarioError] = field(default_factory=list)
    remarks: list[str] = field(default_factory=list)

    def attempt(self, step: Callable[P, T], *args: P.args, **kwargs: P.kwargs) -> T | None:
        """The value that ``step`` returns, or None after noting the ScenarioError that it raised."""
        try:
            return step(*args, **kwargs)
        except ScenarioError as error:
            self.errors.append(error)
            return None

    def take(self, other: Findings) -> None:
        """Append what ``other`` holds: the findings of one entry, which may be asked for apart."""
        self.errors += other.errors
        self.remarks += other.remarks

    def each(self, entries: Iterable[T]) -> Iterator[tuple[T, Findings]]:
        """Every entry with findings of its own; they are taken over when the next one is asked for."""
        for entry in entries:
            own = Findings()  # apart: whether this entry is sound must not depend on those before it
            yield entry, own
            self.take(own)

    def check(self) -> None:
        """Raises: ScenarioError, the first that was noted."""
        if self.errors:
            raise self.errors[0]


@dataclass(frozen=True, kw_only=True, eq=False)  # equal values at two places are two
class Field:
    """A value and the path of keys that leads to it."""

    document: Document
    path: KeyPath = ()
    value: object

    def error(self, problem: str, remedy: str) -> ScenarioError:
        """An error about this value, to be raised."""
        line = self.document.line(self.path)  # looked up now: few values ever need it
        return ScenarioError(self.document.file, spelled(self.path), problem, remedy, line=line)

    def fields(self) -> dict[str, Field]:
        """The values of this mapping by key. Raises: ScenarioError, if it is none or has a key that is no text."""
        if not isinstance(self.value, dict):
            raise self.error(f"expected a mapping, not {described(self.value)}", "write 'key: value' lines under it")
        for key in self.value:
            if not isinstance(key, str):
                raise self.error(f"key {described(key)} is not text", "put the key in quotes")
        return {key: self._inner(key, value) for key, value in self.value.items()}

    def items(self) -> list[Field]:
        """The values of this list. Raises: ScenarioError, if it is none."""
        if not isinstance(self.value, list):
            raise self.error(f"expected a list, not {described(self.value)}", "write '- ' lines under it")
        return [self._inner(index, value) for index, value in enumerate(self.value)]

    def get(self, key: str) -> Field | None:
        """The value at ``key``, None if the key is not there. Raises: ScenarioError, if this is no mapping."""
        return self.fields().get(key)

    def required(self, key: str) -> Field:
        """The value at ``key``. Raises: ScenarioError, if it is not there."""
        inner = self.get(key)
        if inner is None:
            raise self.error(f"key '{key}' is missing", "add it")
        return inner

    def keys(self, found: Findings, *, known: Iterable[str], required: Iterable[str] = ()) -> dict[str, Field]:
        """The values of this mapping by key; none if it is no mapping.

        Notes in ``found`` that it is none, every key that is not ``known`` and every ``required`` one that is missing.
        """
        fields = found.attempt(self.fields)
        if fields is None:
            return {}
        known = tuple(known)
        unknown = [key for key in fields if key not in known]
        for key in unknown:
            found.errors.append(fields[key].error("unknown key", instead(key, known)))
        misspelt = {closest(key, known) for key in unknown}
        for key in required:
            if key not in misspelt:  # said once: as the misspelt one
                found.attempt(self.required, key)
        return fields

    def key(self) -> Field:
        """The key at which this value stands, as a value to ask: a pattern or a time may stand there."""
        return replace(self, value=self.path[-1])

    def text(self) -> str:
        """This value if it is text with something in it. Raises: ScenarioError."""
        if not isinstance(self.value, str):
            raise self.error(f"expected text, not {described(self.value)}", "write text, in quotes if need be")
        if not self.value.strip():
            raise self.error("is empty", "write something")
        return self.value

    def one_of(self, choices: Iterable[str]) -> str:
        """This value if it is one of ``choices``. Raises: ScenarioError, naming the closest choice."""
        text, choices = self.text(), tuple(choices)
        if text not in choices:
            raise self.error(f"{described(text)} is not known", instead(text, choices))
        return text

    def integer(self, low: int, high: int) -> int:
        """This value if it is a whole number from ``low`` to ``high``. Raises: ScenarioError."""
        remedy = f"write a whole number from {low} to {high}"
        if isinstance(self.value, bool) or not isinstance(self.value, int):  # True is an int to Python
            raise self.error(f"expected a whole number, not {described(self.value)}", remedy)
        if not low <= self.value <= high:
            raise self.error(f"{described(self.value)} is out of range", remedy)
        return self.value

    def number(self, valid: Callable[[float], bool], range_: str) -> float:
        """This value if it is a finite number and ``valid``; ``range_`` says what is. Raises: ScenarioError."""
        remedy = f"write a number {range_}"
        # YAML 1.1 knows 1e-3 as text: its floats have a point.
        if isinstance(self.value, str) and re.fullmatch(r"[0-9]+[eE][-+]?[0-9]+", self.value):
            raise self.error(f"{described(self.value)} is text to YAML", "write a decimal point, such as 1.0e-3")
        if isinstance(self.value, bool) or not isinstance(self.value, (int, float)):  # nor is True one
            raise self.error(f"expected a number, not {described(self.value)}", remedy)
        # Compared before converting: an integer may be too large for a float.
        if not (abs(self.value) < 1e300 and math.isfinite(self.value) and valid(float(self.value))):
            raise self.error(f"{described(self.value)} is out of range", remedy)
        return float(self.value)

    def boolean(self) -> bool:
        """This value if it is true or false. Raises: ScenarioError."""
        if not isinstance(self.value, bool):
            raise self.error(f"expected true or false, not {described(self.value)}", "write true or false")
        return self.value

    def quantity(self, parse: Callable[[str], T]) -> T:
        """This text as ``parse``, of :mod:`e2c_dl.units`, reads it. Raises: ScenarioError, for its ValueError."""
        text = self.text()
        try:
            return parse(text)
        except ValueError as error:
            problem, _, remedy = str(error).rpartition("; ")
            raise self.error(problem, remedy) from error

    def _inner(self, step: str | int, value: object) -> Field:
        return replace(self, path=(*self.path, step), value=value)


def spelled(path: Sequence[str | int]) -> str:
    """``networks[0].rate`` of ``("networks", 0, "rate")``; keys that are no plain words are quoted and cut."""

    def parts() -> Iterator[str]:
        for step in path:
            if isinstance(step, int):
                yield f"[{step}]"
            else:
                yield f".{step if _PLAIN_KEY.fullmatch(step) else described(step)}"

    return "".join(parts()).removeprefix(".")


def described(value: object) -> str:
    """``value`` in a few words for a message, however long, large or strange it is."""
    if value is None:
        return "nothing"
    if isinstance(value, str):
        return repr(value if len(value) <= 60 else f"{value[:57]}...")
    if isinstance(value, bool):  # before int, which it is to Python
        return str(value).lower()
    if isinstance(value, int):
        return f"{value}" if value.bit_length() <= 64 else "a huge number"  # Python refuses to print over 4300 digits
    if isinstance(value, float):
        return f"{value:g}"
    names: dict[type, str] = {dict: "a mapping", list: "a list", bytes: "binary data", set: "a set"}
    return names.get(type(value), f"a {type(value).__name__}")


def closest(word: str, known: Sequence[str]) -> str | None:
    """The one of ``known`` that ``word`` most likely was meant to be, None if it resembles none."""
    names = {name.lower(): name for name in known}  # difflib takes another case for another letter
    # Cut: difflib takes time that grows with the square of the length.
    close = difflib.get_close_matches(word[:80].lower(), names, n=1, cutoff=0.6)
    return names[close[0]] if close else None


def instead(word: str, known: Sequence[str]) -> str:
    """A remedy for the unknown ``word``: the closest of ``known``, or all of them."""
    close = closest(word, known)
    if close is not None:
        return f"did you mean '{close}'?"
    return f"write one of {', '.join(known)}" if known else "remove it"
