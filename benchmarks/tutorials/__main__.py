"""Types every tutorial on a bare Debian that is made for it; times each, and holds it against its page."""

from __future__ import annotations

import json
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path

import click

from benchmarks import written
from benchmarks.rooms import ROOT
from benchmarks.tutorials import bare
from benchmarks.tutorials.typist import Typed

MOST_S = 600.0
BAR = "each at most 10 minutes, and ends as its page shows"
TUTORIALS = tuple(path.stem for path in sorted((ROOT / "docs/tutorials").glob("*.md")))
_TYPIST = "benchmarks/tutorials/typist.py"


@click.command()
@click.option("--tutorial", "names", type=click.Choice(TUTORIALS), multiple=True, default=TUTORIALS, help="Only this.")
@click.option("--here", is_flag=True, help="Type on this machine, with this environment; no system is made.")
@click.option(
    "--keep", type=click.Path(path_type=Path, file_okay=False), help="Make the system there, and leave it; or use it."
)
@written.options(here=True, names=("own-fault",))
def main(*, names: Sequence[str], here: bool, keep: Path | None, write: bool) -> None:
    """Type what the tutorials say, on a bare Debian without this machine's caches, as root.

    Exit status 1 if one takes more than 10 minutes, fails, or does not end with the figure that its page shows.
    """
    if here and (write or keep):
        raise click.UsageError("--here: what is set up here already is no newcomer's; leave out --write and --keep")
    pages = [f"docs/tutorials/{name}.md" for name in names]
    set_up: dict[str, float] = {}
    if here:
        done = subprocess.run([sys.executable, _TYPIST, *pages], cwd=ROOT, capture_output=True, text=True, check=False)
    else:
        with _system(keep) as folder:
            set_up = _made(folder)
            done = bare.run(folder, f"{bare.CLONE}/.venv/bin/python", _TYPIST, *pages, network=False)
    typed = [Typed(**json.loads(line)) for line in done.stdout.splitlines()]
    if len(typed) < len(pages):
        raise click.ClickException(f"the typist ended: {done.stderr.strip()[-2000:]}")
    for each in typed:
        if each.wrong:
            click.echo(f"{each.page}: {each.wrong}", err=True)
    text = "\n\n".join([*(f"{what}: {seconds:.0f} s, before." for what, seconds in set_up.items()), table(typed)])
    click.echo(text)
    if write:
        values = {"set_up_s": set_up, "most_s": MOST_S, "measured": [vars(each) for each in typed]}
        written.write(
            "tutorials", title="Tutorials, typed on a bare Debian", text=text, values=values, repeats=1,
            missed=missed(typed),
        )  # fmt: skip
    written.conclude(BAR, missed(typed))


def missed(typed: Sequence[Typed]) -> list[str]:
    """What of the bar ``typed`` miss."""
    wrong = [f"{each.page}: {each.wrong.splitlines()[0]}" for each in typed if each.wrong]
    return wrong + [f"{each.page} takes {each.seconds:.0f} s" for each in typed if each.seconds > MOST_S]


def table(typed: Sequence[Typed]) -> str:
    """Markdown, a row for each tutorial."""
    lines = ["| tutorial | commands | s | ends with |", "|---" * 4 + "|"]
    for each in typed:
        end = f"not as its page: {each.wrong.splitlines()[0]}" if each.wrong else f"`{each.ends_with}`"
        lines.append(f"| {each.page} | {each.commands} | {each.seconds:.1f} | {end} |")
    return "\n".join(lines)


def _made(folder: Path) -> dict[str, float]:
    """What was done, in seconds, until the tree in ``folder`` was set up; nothing where that was done before."""
    if (folder / "root").is_dir():
        return {}
    began_s = time.monotonic()
    bare.make(folder)
    made_s = time.monotonic()
    click.echo(f"a bare system in {folder}, {made_s - began_s:.0f} s; make setup", err=True)
    done = bare.run(folder, "make", "setup", network=True)
    if done.returncode:
        raise click.ClickException(f"make setup failed: {(done.stdout + done.stderr).strip()[-2000:]}")
    return {"debootstrap and a clone": made_s - began_s, "make setup": time.monotonic() - made_s}


@contextmanager
def _system(keep: Path | None) -> Iterator[Path]:
    if keep is not None:
        yield keep.resolve()
        return
    with tempfile.TemporaryDirectory(prefix="e2cdl-bare-") as folder:
        yield Path(folder) / "system"


if __name__ == "__main__":
    main()
