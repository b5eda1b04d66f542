"""Keys of a scenario's file: how the value of each is read and what a JSON Schema says of it, said once.

::

    SLOW = Keys({"host": needed(HOST), "factor": Key(number(1, 1000), "Times slower.", default=2)})
    SLOW.gather(entry, found)   {"host": "edge-1", "factor": 3.0}: the sound ones; what is wrong is noted in ``found``
    SLOW.schema                 {"type": "object", "properties": {"host": ..., "factor": ...}, "required": ["host"]}

The reader is the one definition of ``emulation.yaml``; the schema that editors check it by is generated from it. A
schema keeps to what JSON Schema can say, and accepts all that the reader accepts: it never refuses more.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from typing import Any, Generic, TypeVar

from e2c_dl import units
from e2c_dl.scenario.documents.field import Field, Findings, described

T = TypeVar("T")

Schema = dict[str, Any]

_NO_DEFAULT = object()  # null is a default, too


@dataclass(frozen=True, kw_only=True)
class Kind(Generic[T]):
    """A kind of value. ``read`` raises ScenarioError, naming what to write."""

    read: Callable[[Field], T]
    schema: Schema


@dataclass(frozen=True)
class Key:
    """One key: the kind of its value, and what an editor says of it, in front of what it says of the kind."""

    kind: Kind[Any]
    says: str = ""
    required: bool = False
    default: object = _NO_DEFAULT  # for editors: what holds if it is absent

    @property
    def schema(self) -> Schema:
        said = " ".join(text for text in (self.says, self.kind.schema.get("description")) if text)
        default = {} if self.default is _NO_DEFAULT else {"default": self.default}
        return {**self.kind.schema, **({"description": said} if said else {}), **default}


def needed(kind: Kind[Any], says: str = "") -> Key:
    """A key that must be there."""
    return Key(kind, says, required=True)


class Keys(dict[str, Key]):
    """All the keys that a mapping may have; read in this order, so that errors come in it."""

    @property
    def schema(self) -> Schema:
        properties = {name: key.schema for name, key in self.items()}
        required = {"required": self._required()} if self._required() else {}
        return {"type": "object", "additionalProperties": False, "properties": properties, **required}

    def fields(self, field: Field, found: Findings) -> dict[str, Field]:
        """The values in the mapping ``field``, unread, after noting in ``found`` unknown and missing keys."""
        return field.keys(found, known=self, required=self._required())

    def gather(self, field: Field, found: Findings) -> dict[str, Any]:
        """Its values as read, by key, noting in ``found`` all that is wrong; what could not be read is absent."""
        fields, values = self.fields(field, found), {}
        for name, key in self.items():
            if name in fields:
                before = len(found.errors)
                value = found.attempt(key.kind.read, fields[name])
                if len(found.errors) == before:  # not "is not None": null may be a value
                    values[name] = value
        return values

    def read(self, field: Field) -> dict[str, Any]:
        """The same. Raises: ScenarioError, the first of what is wrong."""
        own = Findings()
        values = self.gather(field, own)
        own.check()
        return values

    @property
    def kind(self) -> Kind[dict[str, Any]]:
        """Such a mapping, as the value of a key."""
        return Kind(read=self.read, schema=self.schema)

    @property
    def listed(self) -> Kind[list[Field]]:
        """A list of such mappings, which is read on by whoever asks: each entry is noted by itself."""
        return listed(self.schema)

    def _required(self) -> list[str]:
        return [name for name, key in self.items() if key.required]


BOOLEAN = Kind(read=Field.boolean, schema={"type": "boolean"})


def unread(schema: Schema) -> Kind[Field]:
    """A value that is read on by whoever asks, in the light of what else was read."""
    return Kind(read=lambda field: field, schema=schema)


def listed(schema: Schema, least: int = 0) -> Kind[list[Field]]:
    """A list, its entries unread."""
    return Kind(read=Field.items, schema={"type": "array", "items": schema, **({"minItems": least} if least else {})})


def quantity(spelled: units.Quantity, says: str, parse: Callable[[str], T]) -> Kind[T]:
    """A number with a unit, spelled as ``spelled`` says and read by ``parse``."""
    schema = {"type": "string", "pattern": rf"^\s*{spelled.pattern}\s*$", "description": says}

    def read(field: Field) -> T:
        if isinstance(field.value, (int, float)) and not isinstance(field.value, bool):  # YAML made it a number
            raise field.error(f"{described(field.value)} has no unit", f"write e.g. {spelled.example}")
        return field.quantity(parse)

    return Kind(read=read, schema=schema)


def number(low: float, high: float, *, above: bool = False, below: bool = False, of: str = "") -> Kind[float]:
    """A number ``of`` something from ``low`` to ``high``; ``above``, ``below``: without that end itself."""
    schema = {"type": "number", "exclusiveMinimum" if above else "minimum": low}
    schema["exclusiveMaximum" if below else "maximum"] = high
    upto = (" and below" if below else ", at most") if above else " to less than" if below else " to"
    within = f"{'above' if above else 'from'} {low:g}{upto} {high:g}"

    def valid(value: float) -> bool:
        return (low < value if above else low <= value) and (value < high if below else value <= high)

    return Kind(read=lambda field: field.number(valid, of + within), schema=schema)


def integer(low: int, high: int) -> Kind[int]:
    """A whole number from ``low`` to ``high``."""
    schema = {"type": "integer", "minimum": low, "maximum": high}
    return Kind(read=lambda field: field.integer(low, high), schema=schema)


def one_of(choices: Iterable[str]) -> Kind[str]:
    """One of these words."""
    choices = tuple(choices)
    return Kind(read=lambda field: field.one_of(choices), schema={"enum": [*choices]})


def matching(pattern: str, what: str, remedy: str) -> Kind[str]:
    """Text that ``pattern`` matches as a whole; else it "is no ``what``", and ``remedy`` says what to write."""

    def read(field: Field) -> str:
        text = field.text()
        if not re.fullmatch(pattern, text):
            raise field.error(f"{described(text)} is no {what}", remedy)
        return text

    return Kind(read=read, schema={"type": "string", "pattern": f"^{pattern}$"})


def some(kind: Kind[float]) -> Kind[float]:
    """As ``kind``, above 0."""

    def read(field: Field) -> float:
        value = kind.read(field)
        if value == 0:
            raise field.error("changes nothing", "write more than 0, or remove the entry")
        return value

    return Kind(read=read, schema=kind.schema)


RATE = quantity(
    units.RATE,
    "Bits per second of Ethernet frames, headers included: 500kbit, 10mbit, 1gbit; from 1kbit to 100gbit.",
    units.parse_rate,
)
DELAY = quantity(units.DELAY, "A delay below 60 s, one way: 200us, 10ms, 1.5s.", units.parse_delay)
LOSS = quantity(units.LOSS, "A share of segments below 100 %: 0.1%, 1%.", units.parse_loss)
SHARE = quantity(units.SHARE, "A probability, from 0% to 100%.", units.parse_share)
SPAN = quantity(units.SPAN, "A time, up to a week: 500ms, 20s, 2min, 1h.", units.parse_span)
OFFSET = quantity(units.OFFSET, "How far a clock jumps, either way: 50ms, -50ms.", units.parse_offset)
DRIFT = quantity(units.DRIFT, "What a clock gains, either way: 100ppm, -100ppm.", units.parse_drift)
