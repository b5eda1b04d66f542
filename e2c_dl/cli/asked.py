"""What is asked of a run on a testbed: the arguments and options that every command which begins one takes alike."""

from __future__ import annotations

import functools
import os
import sys
from collections.abc import Callable
from dataclasses import dataclass, fields
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from e2c_dl.cli import options

if TYPE_CHECKING:
    from e2c_dl.campaign.request import Request


@dataclass(frozen=True, kw_only=True)
class Asked:
    """What was typed of them."""

    scenario: Path
    artifacts: Path | None
    testbed: str
    archive: Path | None
    strict: bool
    seed: int | None
    healthy: bool
    inventory: str | None
    image: str | None
    memory: str | None
    wait: str | None
    box: str | None

    def request(self, *, keep: bool = False, only_probe: bool = False) -> Request:
        """The run, with paths as seen from here. Raises: UsageError if some of what was typed excludes the rest."""
        from e2c_dl.campaign.request import Request

        options.one_of(seed=self.seed is not None, healthy=self.healthy)
        return Request(
            scenario=Path(os.path.abspath(self.scenario)), artifacts=options.absolute(self.artifacts),
            testbed=self.testbed, archive=options.absolute(self.archive),
            options=options.given({name: getattr(self, name) for name in options.OF_TESTBEDS}),
            strict=self.strict and not only_probe, seed=self.seed, healthy=self.healthy, keep=keep,
            only_probe=only_probe, command=tuple(sys.argv),  # kept in the archive, so that the run can be repeated
        )  # fmt: skip


def of_run(strict: str) -> Callable[[Callable[..., None]], Callable[..., None]]:
    """Gives a command these, its argument ``asked``; ``strict`` is what --strict does there."""
    taken = (
        options.SCENARIO,
        options.ARTIFACTS,
        options.on("local"),
        options.KEPT_IN,
        click.option("--strict", is_flag=True, help=strict),
        options.SEED,
        options.HEALTHY,
    )

    def decorated(command: Callable[..., None]) -> Callable[..., None]:
        @functools.wraps(command)
        def gathered(**typed: Any) -> None:
            own = {field.name: typed.pop(field.name) for field in fields(Asked)}
            command(asked=Asked(**own), **typed)

        for option in reversed(taken):  # decorators apply from below: --help has them in order
            gathered = option(gathered)
        return gathered

    return decorated
