"""What a migration was asked for, and what it did, as values."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from enum import Enum


class Loss(Enum):
    """What a bare number means at ``default_loss:``: earlier versions did not say."""

    PERCENT = "percent"
    FRACTION = "fraction"
    NONE = "none"


class Kind(Enum):
    """What is told of a scenario."""

    CHANGED = "changed"
    GUESSED = "guessed"  # changed, and another reading is possible: an option says which
    REPAIRED = "repaired"  # a defect of the workflow, with --fix
    DEFECT = "defect"  # left as it is
    NOTE = "note"  # left as it is; what it needs, or whom it depends on


@dataclass(frozen=True, kw_only=True)
class Said:
    """One thing that is told: ``line`` counts from 1 in the file as it was before."""

    kind: Kind
    file: str
    line: int
    what: str
    why: str

    def __str__(self) -> str:
        return f"{self.kind.value}: {self.file}:{self.line}: {self.what}; {self.why}"


@dataclass(frozen=True, kw_only=True)
class Asked:
    """What the user said of what a scenario leaves open."""

    loss: Loss | None = None  # None: percent, told as a guess
    environment: str | None = None  # of a flat one without name; None: g5k, told as a guess
    env_name: str | None = None  # the image to use in place of one in a user's folder
    fix: bool = False  # repair defects of the workflow
    services: Mapping[str, str] = field(default_factory=dict)  # service of before -> the one that it is today
