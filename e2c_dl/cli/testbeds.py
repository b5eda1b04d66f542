"""``--on NAME`` and what can be said about a testbed, the same for every command that takes them."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import click

INVENTORY = click.option(
    "--inventory",
    type=click.Path(path_type=Path),
    metavar="FILE",
    help="For --on static: the YAML file that lists the hosts.",
)
IMAGE = click.option("--image", metavar="NAME", help="For --on docker: the image of the hosts [default: built once].")
MEMORY = click.option("--memory", metavar="SIZE", help="For --on docker: what a host may use at most, such as 1GiB.")


def on(default: str | None) -> Callable[[Callable[..., Any]], Callable[..., Any]]:
    """The options ``--on`` (argument ``testbed``), ``--inventory``, ``--image`` and ``--memory`` of a command."""
    chosen = click.option(
        "--on",
        "testbed",
        default=default,
        show_default=default is not None,
        metavar="TESTBED",
        help="Where the hosts come from: local, docker or static.",
    )

    def decorated(command: Callable[..., Any]) -> Callable[..., Any]:
        return chosen(INVENTORY(IMAGE(MEMORY(command))))

    return decorated


def options(inventory: Path | None, image: str | None, memory: str | None) -> dict[str, str]:
    """What was said, as ``catalogue.testbed`` takes it."""
    said = {"inventory": None if inventory is None else str(inventory), "image": image, "memory": memory}
    return {name: value for name, value in said.items() if value is not None}
