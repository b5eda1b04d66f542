"""Trials that were published before, of systems that still do what they did there.

::

    published     compute: seeds 1 2 3 4 5          at an earlier commit
    made again    compute: seed  1                  by the code as it is

Where every trial that is in both is the same, to the bit, in all that was recorded of it but how long it took, what the
code changed since did not touch that system in that environment: its other seeds stand, and the page says of which
commit they are. One that differs, or a cell of which nothing was made again, and they count for nothing.
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import fields
from pathlib import Path
from typing import Any

import click

from benchmarks.systems import environments
from benchmarks.systems.tables import recorded
from benchmarks.systems.trial import Asked, Ran
from e2c_dl.codec import convert
from e2c_dl.errors import E2cDlError

REMEDY = "name a systems.json of benchmarks/results"
MADE_AT = "made_at"
"""Of a recorded trial that an earlier commit made: which."""


class Earlier:
    """The trials of a NAME.json of this benchmark that are ``asked`` for, and stand beside those ``made`` anew."""

    def __init__(self, file: Path, asked: Sequence[Asked], made: Mapping[Asked, Ran]) -> None:
        """Raises: UsageError, if ``file`` is no such."""
        try:
            content = json.loads(file.read_text(encoding="utf-8"))
            there = {convert(each["asked"], Asked, str(file), remedy=REMEDY): each for each in content["trials"]}
        except (OSError, ValueError, KeyError, TypeError, E2cDlError) as error:
            raise click.UsageError(f"--earlier {file}: it holds no trials of systems ({error})") from error
        again = [each for each in made if each in there]
        other = {_cell(each) for each in again if _plain(recorded(made[each])) != _figures(there[each])}
        same = {_cell(each) for each in again} - other
        self._made_at = {
            each: str(there[each].get(MADE_AT, content["commit"]))
            for each in asked if each in there and each not in made and _cell(each) in same
        }  # fmt: skip
        self.trials = {each: _ran(each, there[each], str(file)) for each in self._made_at}
        self._again = sum(_cell(each) in same for each in again)

    def recorded(self, came: Ran) -> dict[str, object]:
        """What is written of ``came``, whoever made it."""
        known = self._made_at.get(came.asked)
        return {**recorded(came), **({} if known is None else {MADE_AT: known})}

    def said(self, trials: int) -> str:
        """A sentence on where the figures of ``trials`` trials are from."""
        commits = ", ".join(sorted(set(self._made_at.values())))
        return (
            f"Of {trials} trials {len(self.trials)} are of an earlier commit ({commits}): of the same system and "
            f"environment {self._again} were made again, and are the same to the bit."
        )


def _cell(asked: Asked) -> tuple[str, str]:
    return asked.system, asked.environment


def _figures(values: Mapping[str, Any]) -> dict[str, Any]:
    return {key: value for key, value in values.items() if key not in ("took_s", MADE_AT)}


def _plain(values: Mapping[str, object]) -> dict[str, Any]:
    """As JSON gives it back."""
    return _figures(json.loads(json.dumps(values)))


def _ran(asked: Asked, values: Mapping[str, Any], where: str) -> Ran:
    """The trial, with its fullest link alone, of which the share was recorded."""
    own = {each.name for each in fields(Ran)} - {"asked"}
    environment = environments.ALL[asked.environment]
    layers = environment.layers()
    link = values["fullest_link"]
    rate = environment.mean_rate(*(layers[int(rank)] for rank in link.split())) if link else 0.0
    links = {link: values["filled"] * rate} if link else {}
    known = {key: value for key, value in values.items() if key in own}
    return convert({**known, "asked": {**vars(asked)}, "links": links}, Ran, where, remedy=REMEDY)
