"""Traces of the ranks of a user's own program, gathered from their host: RUN_DIR/traces/hosts/NAME or NAME_SLOT.

A host has as many ranks as the workflow has started, of each a folder that stands beside the host's own in the archive.
"""

from __future__ import annotations

import re
import subprocess
from collections.abc import Iterable, Sequence
from pathlib import Path

from e2c_dl.archive import layout
from e2c_dl.beneath import Place
from e2c_dl.campaign.hosts import brought
from e2c_dl.testbeds import programs
from e2c_dl.testbeds.base import Access
from e2c_dl.testbeds.own_programs.wrappers import TRACES
from e2c_dl.testbeds.programs import Answer

FOLDER = f"{TRACES}/{layout.HOSTS}"
LEFT = "e2c_dl.tracing.left"
AT_ONCE = 1000  # files: their names are words of one command
_LIST = 'cd "$0" 2>/dev/null || exit 0; exec find . -mindepth 2 -maxdepth 2 -type f'
_ANSWER_S = 30.0


def copied(host: str, run_dir: Path, archive: Path) -> str | None:
    """The traces of ``host``'s ranks stand in ``archive``; why not all of them, else None. ``run_dir``: here.

    Raises: ArchiveError, OSError.
    """
    place = Place(run_dir) / FOLDER
    names = _own(host, (f"{rank}/{name}" for rank in place.folders() for name in (place / rank).names()))
    return brought.copied(place, Place(_made(archive, names)), names)


def fetched(host: str, access: Access, archive: Path) -> str | None:
    """As ``copied``, over SSH."""
    folder = f"{access.run_dir}/{FOLDER}"
    argv = programs.ssh_argv(access, "sh", "-c", _LIST, folder)
    try:
        listed = subprocess.run(
            argv, stdin=subprocess.DEVNULL, capture_output=True, text=True, errors="replace", timeout=_ANSWER_S,
            check=False,
        )  # fmt: skip
    except subprocess.TimeoutExpired:
        return f"it did not answer within {_ANSWER_S:g} s"
    failed = brought.unasked(listed.returncode, listed.stderr) if listed.returncode else None
    names = _own(host, (line.removeprefix("./") for line in listed.stdout.splitlines()))
    into = _made(archive, names)
    parts = (names[first : first + AT_ONCE] for first in range(0, len(names), AT_ONCE))
    return next((why for part in parts if (why := brought.fetched(access, folder, into, part))), failed)


def may_be_there(run_dir: Path | None) -> bool:
    """Whether ranks may have left traces: surely not where ``run_dir`` is on this machine, and has none."""
    return run_dir is None or (Place(run_dir) / FOLDER).exists()


def keep_written(accesses: Sequence[Access]) -> tuple[str, ...]:
    """What the script itself has written stands beside its ranks' traces, on their hosts; what could not be, told."""

    def ask(access: Access) -> Answer:
        argv = programs.ssh_argv(access, access.python, "-I", "-m", LEFT, f"{access.run_dir}/{TRACES}")
        return programs.answer(access, argv, "", _ANSWER_S)

    said = []
    for host, answer in programs.on_all(accesses, ask).items():
        problems = [answer.failure] if answer.failure is not None else answer.value
        said += [f"{host}: {problem}" for problem in problems]
    return tuple(said)


def _own(host: str, files: Iterable[str]) -> tuple[str, ...]:
    """Those of ``files`` that a rank of ``host`` may leave: RANK/FILE, of which a host says what it likes."""
    own = re.compile(rf"{re.escape(host)}(_[0-9]{{1,3}})?/[A-Za-z0-9][^/]{{0,200}}")
    return tuple(name for name in files if own.fullmatch(name))


def _made(archive: Path, names: Iterable[str]) -> Path:
    """The folder of all hosts in ``archive``, and in it those of ``names``."""
    into = archive / layout.HOSTS
    for name in names:
        (into / name).parent.mkdir(parents=True, exist_ok=True)
    return into
