"""``e2c-dl strategies``: the algorithms there are, and what can be set about them."""

from __future__ import annotations

import click


@click.command()
@click.option("--json", "as_json", is_flag=True, help="Print them as JSON: name, title, settings with defaults.")
def strategies(as_json: bool) -> None:
    """List the strategies: the name for `strategy:`, what it does, and its `strategy_settings:` with their defaults."""
    import json
    from dataclasses import asdict

    from e2c_dl.strategies import describe, names

    found = [describe(name) for name in names()]
    if as_json:
        click.echo(json.dumps([asdict(each) for each in found], indent=2))
        return
    for each in found:
        click.echo(f"{each.name}\n    {each.title}")
        for key, default in each.settings.items():
            click.echo(f"    {key}: {json.dumps(default)}")  # as YAML has it, too
