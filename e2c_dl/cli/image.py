"""``e2c-dl image``: the image whose containers are the hosts of ``--on docker``."""

from __future__ import annotations

import json

import click

from e2c_dl.cli import options
from e2c_dl.cli.telling.progress import told


@click.group()
def image() -> None:
    """Build, list or remove the image whose containers are the hosts of `deploy --on docker`."""


@image.command()
@click.option("--from", "base", metavar="BASE", help="A Debian or Ubuntu image [default: of this machine's version].")
@click.option("--from-debootstrap", "by_debootstrap", is_flag=True, help="Make the base here: no registry is needed.")
@click.option("--tag", metavar="NAME", help="What to call it [default: the name that deploy looks for].")
@options.as_json("Print as JSON: name, size_bytes.")
def build(base: str | None, by_debootstrap: bool, tag: str | None, as_json: bool) -> None:
    """Build the image. With --from-debootstrap (as root) that takes about 2 minutes."""
    from e2c_dl.errors import InputError
    from e2c_dl.testbeds.docker import debootstrap
    from e2c_dl.testbeds.docker import image as building

    if base is not None and by_debootstrap:  # said before anything is built, which takes minutes
        raise InputError("--from and --from-debootstrap: two bases; name one")
    name = building.checked_name(tag) if tag is not None else building.default_name()
    with told() as tell:
        if by_debootstrap:
            base = building.make_base(debootstrap.this_machines(), tell)
        # debootstrap's base has everything: nothing to download
        made = building.build(
            building.checked_name(base or building.default_base()), name, tell, download=not by_debootstrap
        )
    if as_json:
        click.echo(json.dumps({"name": made.name, "size_bytes": made.size_bytes}, indent=1))
        return
    click.echo(f"{made.name}: {made.size_bytes / 1e6:.0f} MB; `e2c-dl doctor --on docker` says whether it works here")


@image.command("list")  # by name: a function called list would hide Python's
@options.as_json("Print them as JSON: name, size_bytes, what.")
def list_images(as_json: bool) -> None:
    """List the images that were built here, and which of them is the current one."""
    from e2c_dl.testbeds.docker.image import BASE_REPOSITORY, images

    found = []
    for each in images():
        base = each.name.startswith(f"{BASE_REPOSITORY}:")
        found.append(
            (each.name, each.size_bytes, "base" if base else "of another version" if each.stale else "current")
        )
    if as_json:
        keys = ("name", "size_bytes", "what")
        click.echo(json.dumps([dict(zip(keys, row, strict=True)) for row in found], indent=1))
        return
    for name, size_bytes, what in found:
        click.echo(f"{name:<34} {size_bytes / 1e6:6.0f} MB  {what}")
    if not found:
        click.echo("none; `e2c-dl image build` makes it")


@image.command()
@options.as_json("Print what was removed as JSON: a list of names.")
def remove(as_json: bool) -> None:
    """Remove every image that was built here, of other versions too."""
    from e2c_dl.testbeds.docker.image import remove as remove_all

    removed = remove_all()
    if as_json:
        click.echo(json.dumps(removed, indent=1))
        return
    for name in removed:
        click.echo(f"{name}: removed")
