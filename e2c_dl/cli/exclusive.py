"""Options that contradict each other."""

from __future__ import annotations

import click


def one_of(**chosen: bool) -> None:
    """Does nothing. Raises: UsageError if more than one of these options was chosen."""
    names = [f"--{name.replace('_', '-')}" for name, was in chosen.items() if was]
    if len(names) > 1:
        raise click.UsageError(f"{' and '.join(names)} exclude each other; leave one of them out")
