"""Command ``e2c-dl trace``: any training script, unchanged."""

from __future__ import annotations

import os
import secrets
import sys
from contextlib import ExitStack, contextmanager, suppress
from datetime import datetime, timezone
from pathlib import Path
from typing import TYPE_CHECKING

import click

from e2c_dl.beneath import LARGE_BYTES
from e2c_dl.cli.options import PATH
from e2c_dl.cli.telling.streams import say

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

    from e2c_dl.campaign.traced import Ran
    from e2c_dl.tracing.left import Told

LEAST_CAP_BYTES = 1 << 16
STILL_WRITING_S = 10.0  # how long ranks may take to end after the command has


@click.command(context_settings={"ignore_unknown_options": True, "allow_interspersed_args": False})
@click.option("--archive", type=PATH, help="Where the traces are kept [default: runs/traced-TIME-RUN].")
@click.option("--layer", default="all", show_default=True, help="Layer that this host's ranks are of.")
@click.option(
    "--cap",
    help="Size that a rank's spans may have, and what its sockets told: from half of it on, only slow iterations are "
    "kept [default: 1GiB].",
)
@click.option("--scenario", type=PATH, help="The scenario that designed the network and the hosts, to compare with.")
@click.argument("command", nargs=-1, required=True, type=click.UNPROCESSED, metavar="-- COMMAND...")
def trace(archive: Path | None, layer: str, cap: str | None, scenario: Path | None, command: tuple[str, ...]) -> None:
    """Run COMMAND, a training script as it is, and trace every rank that it starts on this host.

    COMMAND is `python main.py ...`, or a launcher's: `torchrun --nproc-per-node 2 main.py`, `horovodrun -np 2 python
    main.py`. Its output and its exit code are its own. If all ranks ran here, the report follows; else `e2c-dl collect`
    makes one archive of what each host has.
    """
    from e2c_dl.archive import layout
    from e2c_dl.campaign import traced
    from e2c_dl.errors import InputError
    from e2c_dl.redaction import of_command
    from e2c_dl.scenario.load import load
    from e2c_dl.tracing import folder, launch
    from e2c_dl.tracing.settings import Settings

    place = Path(os.path.abspath(archive)) if archive is not None else _default()
    if (place / "run.json").exists():
        raise click.UsageError(f"{place}: is an archive already; name a new directory with --archive")
    if scenario is not None:
        load(scenario)
    settings = Settings(archive=place, layer=layer, cap_bytes=LARGE_BYTES if cap is None else _size(cap))
    alone = folder.of_environment()[1] <= 1 and not (place / layout.HOSTS).exists()  # no other rank writes there
    if alone and place.is_dir() and any(place.iterdir()):
        raise click.UsageError(f"{place}: is not empty; name a new directory with --archive")
    made = not place.exists()
    place.mkdir(parents=True, exist_ok=True)
    try:
        with _beside_others(place):
            code = launch.run(command, settings.environment(os.environ))
    except InputError:
        _unmake(place, made)
        raise
    sys.stdout.flush()
    _conclude(place, scenario, traced.Ran(command=of_command(command), exit_code=code), made)
    sys.exit(code)


@contextmanager
def _beside_others(place: Path) -> Iterator[None]:
    """Of several commands the last that ends makes the archive: what a rank's nsys writes after it is there by then."""
    from e2c_dl.archive.lock import held
    from e2c_dl.errors import ArchiveBusy

    with ExitStack() as stack:
        try:
            stack.enter_context(held(place, shared=True))
        except ArchiveBusy:  # the script runs, whatever is made of its traces
            say(f"{place}: another process makes an archive of it, which may not have what this command's ranks leave")
        yield


def _unmake(place: Path, made: bool) -> None:
    """Nothing is left of a folder that was ``made`` for what did not come."""
    if made:
        with suppress(OSError):  # there is something in it, or the script has removed it
            place.rmdir()


def _size(cap: str) -> int:
    """Raises: click.UsageError for no size, or one that holds no trace."""
    from e2c_dl.units import parse_size

    try:
        size_bytes = parse_size(cap)
    except ValueError as error:
        raise click.UsageError(f"--cap {cap}: {error}") from error
    if not LEAST_CAP_BYTES <= size_bytes <= LARGE_BYTES:
        raise click.UsageError(f"--cap {cap}: a trace has {LEAST_CAP_BYTES >> 10} KiB to {LARGE_BYTES >> 30} GiB")
    return size_bytes


def _conclude(place: Path, scenario: Path | None, ran: Ran, made: bool) -> None:
    """Make one archive of it, if all ranks are here; say where it is, or what is missing."""
    from e2c_dl.archive import layout
    from e2c_dl.errors import ArchiveBusy, E2cDlError
    from e2c_dl.tracing import folder, left

    several = folder.of_environment()[1] > 1  # a launcher started this command once for each rank
    found: dict[str, left.Told] = {}
    try:
        if not place.is_dir():
            say(f"{place}: the command has removed it, with what was traced; name a directory that it leaves alone")
            return
        found = left.told(place)
        if not found:
            _unmake(place, made)
            say(_nothing(place / layout.ATTEMPTS))
            return
        _collect(place, found, scenario, ran, several)
    except ArchiveBusy as error:
        say(f"{place}: the command of another rank {_makes(place)}" if several else str(error))
    except (E2cDlError, OSError, KeyboardInterrupt) as error:  # the exit code is the script's
        interrupted = isinstance(error, KeyboardInterrupt)
        say("interrupted" if interrupted else str(error) if isinstance(error, E2cDlError) else f"{place}: {error}")
        if found and not (place / layout.MANIFEST).exists():
            there = interrupted and not (place / layout.RUN).exists()
            how = f"{place}`" if there else f"{place} --archive NEW`, where there is room,"
            say(f"what was traced stands in {place}; `e2c-dl collect {how} makes an archive of it")


def _nothing(attempts: Path) -> str:
    """Why there is no archive."""
    if attempts.is_dir():
        stands = f"what ranks recorded before torchrun began them anew stands in {attempts}"
        return f"nothing was traced of the last attempt: no rank has made an optimizer's step; {stands}"
    return "nothing was traced: no Python process of the command has made an optimizer's step"


def _makes(place: Path) -> str:
    return f"makes the archive; if it does not, `e2c-dl collect {place}` does"


def _collect(place: Path, found: Mapping[str, Told], scenario: Path | None, ran: Ran, several: bool) -> None:
    """Raises: ArchiveBusy, if another command of ``several`` does; ArchiveError, ScenarioError."""
    from e2c_dl.archive.lock import held
    from e2c_dl.campaign import traced
    from e2c_dl.errors import ArchiveBusy
    from e2c_dl.tracing import launch, left
    from e2c_dl.tracing.rendezvous import boot

    here = boot()  # numbers of processes on other machines, which share the folder, say nothing here
    alive = launch.wait_for([each.pid for each in found.values() if each.boot == here], STILL_WRITING_S)
    gone = traced.missing(found)
    if alive and several:
        who = "the command of the rank that ends last"
        say(f"{place}: {len(alive)} of its processes still run; {who} {_makes(place)}")
    elif alive or (gone and any(each.machines != 1 for each in found.values())):
        with suppress(ArchiveBusy), held(place):  # else another rank's command keeps them
            for problem in left.keep_written(place, say):
                say(problem)
        absent = f"ranks {', '.join(map(str, gone))} are not here"
        why = f"{len(alive)} of its processes still run" if alive else absent
        say(f"{place}: {why}; `e2c-dl collect {place} ... --archive NEW` makes one archive of all hosts' folders")
    else:
        traced.collected([place], place, scenario, ran, say)
        for line in traced.headline(place):
            say(line)


def _default() -> Path:
    at = datetime.now(timezone.utc).astimezone().strftime("%Y%m%d-%H%M%S")
    return Path.cwd() / "runs" / f"traced-{at}-{secrets.token_hex(4)}"
