"""What is wrong with how the commands take an archive that was tampered with: nothing, or a sentence."""

from __future__ import annotations

import contextlib
import signal
import traceback
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

from commands import Said, said
from hostile_archives import Edit, copied, tamper

WITHIN_S = 60  # each command; they take a third of a second where nothing else runs
COMMANDS: tuple[tuple[str, ...], ...] = (
    ("report",), ("export", "--output", "{}.json"), ("export", "--format", "csv", "--output", "{}.csv"), ("verify",),
    ("logs",), ("attach",), ("stragglers",), ("compare",), ("summary",),
)  # fmt: skip


class _TooLong(BaseException):
    pass


def judged(original: Path, edits: Sequence[Edit], place: Path) -> str | None:
    """A sentence if a command takes ``original`` after ``edits`` as it must not; ``place`` is a new folder.

    Raises: what :func:`hostile_archives.tamper` does.
    """
    place.mkdir()
    outside = place / "outside"
    (outside / "folder").mkdir(parents=True)
    (outside / "kept").write_text("theirs")
    archive = copied(original, place / "archive")
    tamper(archive, edits, outside)
    for command, *options in COMMANDS:
        wrong = wrong_with(command, archive, *(option.format(place / "exported") for option in options))
        if wrong is None and sorted(path.name for path in outside.rglob("*")) != ["folder", "kept"]:
            wrong = "something was written outside of the archive"
        if wrong is None and (outside / "kept").read_text() != "theirs":
            wrong = "something outside of the archive was overwritten"
        if wrong is not None:
            return f"{command}: {wrong}"
    return None


def wrong_with(*argv: object) -> str | None:
    """A sentence if ``e2c-dl argv`` neither succeeds nor fails in one line."""
    try:
        with _limited():
            found = said(*argv)
    except _TooLong:
        return f"takes more than {WITHIN_S} s"
    except BaseException as error:  # noqa: BLE001 - whatever it is, it is the finding
        frames = traceback.extract_tb(error.__traceback__)
        own = [each for each in frames if "/e2c_dl/" in each.filename][-1]
        where = f"{own.filename.rpartition('/e2c_dl/')[2]}:{own.lineno} ({own.name})"
        return f"{type(error).__name__} at {where}: {error!s:.100}"
    return _odd_words(str(argv[0]), found)


def _odd_words(command: str, found: Said) -> str | None:
    _, own, after = found.err.rpartition("e2c-dl: ")
    lines = (own + after if command == "attach" else found.err).splitlines()  # before it comes what the run told
    if any(not character.isprintable() for character in (found.out + found.err) if character not in "\n\t"):
        return f"prints control characters: {(found.out + found.err)!r:.200}"
    if found.code == 0:
        telling = command == "export" and all(line.startswith("e2c-dl: ") for line in lines)  # of what it lacks
        return f"succeeds, and says {found.err!r:.200}" if found.err and command != "attach" and not telling else None
    if not all(line.startswith("e2c-dl") for line in lines) or not lines or (len(lines) > 1 and command != "verify"):
        return f"fails with {found.err!r:.300}"
    return None


@contextlib.contextmanager
def _limited() -> Iterator[None]:
    def stop(*_: Any) -> None:
        raise _TooLong

    before = signal.signal(signal.SIGALRM, stop)
    signal.alarm(WITHIN_S)
    try:
        yield
    finally:
        signal.alarm(0)
        signal.signal(signal.SIGALRM, before)
