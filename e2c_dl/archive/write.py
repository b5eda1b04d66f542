"""Writing an archive: one directory that says what happened from its first moment to its last.

::

    Archive.create(path)  ->  record(...), happened(...), add_file(...)  ->  seal()
      run.json: running         run.json grows, valid at every moment          checksums, RO-Crate; no reserve

What a full disk, Ctrl-C or a lost host leaves is an archive that can be read; :meth:`Archive.seal` makes it one that
can be believed. Sealing twice is allowed, and :func:`amend` renews single files of a sealed archive.
"""

from __future__ import annotations

import functools
import shutil
from collections.abc import Callable, Iterable, Sequence
from contextlib import ExitStack, suppress
from pathlib import Path, PurePosixPath
from typing import Any

from e2c_dl.archive import crate, manifest
from e2c_dl.archive.layout import CRATE, RUN
from e2c_dl.archive.lock import held
from e2c_dl.archive.reserve import ReservedFile
from e2c_dl.archive.run import Outcome, Run, StepRecord, check_key, from_mapping, merge, plain, read_facts, read_run
from e2c_dl.archive.run import to_bytes as run_bytes
from e2c_dl.beneath import Place
from e2c_dl.errors import ArchiveBusy, ArchiveError, ArchiveTaken
from e2c_dl.redaction import Redactor
from e2c_dl.trace.places import Recorded, all_recorded
from e2c_dl.trace.propagation.samples import convert_samples
from e2c_dl.trace.store import convert as to_parquet
from e2c_dl.trace.store import training_began

Convert = Callable[[Recorded, int | None], Path]
"""Takes a host, when training began; the table of its spans, read back and compared with spans.bin, or ArchiveError."""

SHORTEST_BYTES = 8  # fewer stand in many a file by accident
LONG_LINE_BYTES = 40


class Archive:
    """One run's archive while it is written. Of several processes, one may: until it ends, seals it or lets it go."""

    def __init__(self, path: Path, facts: dict[str, Any]) -> None:
        self.path = path
        self._lock = ExitStack()
        self._facts = facts
        self._run_file, self.redactor = ReservedFile(path / RUN), Redactor()  # of what must not stand in run.json

    @classmethod
    def create(cls, path: Path, run_id: str, *, started: str, **facts: Any) -> Archive:
        """A new archive at ``path`` whose run.json says *running*.

        ``started`` is ISO 8601 with an offset; ``facts`` as for :meth:`record`.
        Raises: ArchiveTaken if ``path`` exists and is not an empty directory; ArchiveError if it cannot be written.
        """
        archive = cls(path, plain(vars(Run(run_id=run_id, started=started))))
        try:
            made = _made(path)  # else it is not this run's to remove
            if not archive._run_file.claim():
                raise ArchiveTaken(f"{path}: is not empty; name a new directory with --archive")
        except OSError as error:
            raise ArchiveError(f"{path}: cannot be made: {error.strerror}; name another with --archive") from error
        try:
            archive._hold()
            archive._run_file.keep()
            archive.record(**facts)
        except ArchiveError:  # nothing has begun: an empty archive would only be in the way
            archive._run_file.release()
            archive.let_go()
            if made:
                with suppress(OSError):  # another has it by now
                    path.rmdir()
            raise
        return archive

    @classmethod
    def around(
        cls, path: Path, run_id: str, *, started: str, first: Callable[[], None] = lambda: None, **facts: Any
    ) -> Archive:
        """The folder ``path``, into which hosts have put their traces already, as an archive that says *running*.

        ``first`` is called when the folder is this process's and no archive yet: what breaks off there can be begun
        anew. Raises: ArchiveError if it is an archive by now, another process makes it one, or it cannot be written.
        """
        archive = cls(path, plain(vars(Run(run_id=run_id, started=started))))
        archive._hold()
        try:
            if (path / RUN).exists():
                raise ArchiveBusy(f"{path}: is an archive already; `e2c-dl report {path}` says what it shows")
            first()
            archive._run_file.keep()
            archive.record(**facts)
        except BaseException:  # Ctrl-C too
            archive.let_go()
            raise
        return archive

    @classmethod
    def resume(cls, path: Path) -> Archive:
        """The archive at ``path``, to go on writing it.

        Raises: ArchiveError if its run.json is missing or damaged, or another process writes it.
        """
        read_run(path)  # a damaged one is not grown
        archive = cls(path, read_facts(path))
        archive._hold()
        archive._facts = read_facts(path)  # as whoever had it left it
        archive._run_file.keep()
        return archive

    @property
    def run(self) -> Run:
        """The run as recorded so far."""
        return from_mapping(plain(self._facts), str(self.path / RUN))

    def record(self, **facts: Any) -> None:
        """run.json holds ``facts`` (keys of :class:`Run`) as well, on the disk.

        Mappings merge key by key, at any depth; everything else replaces what was there.
        Raises: ArchiveError for an unknown key, a value JSON does not know, or a disk so full that not even the reserve
        helps; what was recorded before then stands.
        """
        where = str(self.path / RUN)
        for key in facts:
            check_key(key, where)
        merged = merge(self._facts, {key: self.redactor.value(value) for key, value in plain(facts).items()})
        from_mapping(merged, where)  # a wrong type is found by who records it, not by who reads it
        self._run_file.replace(run_bytes(merged, where))
        self._facts = merged  # not before: what could not be written is not recorded

    def happened(self, sentence: str) -> None:
        """One more sentence of ``what_happened``."""
        self.record(what_happened=[*self._facts["what_happened"], sentence])

    def limited(self, sentence: str) -> None:
        """One more sentence of ``limitations``."""
        self.record(limitations=[*self._facts["limitations"], sentence])

    def step(self, step: str, seconds: float, outcome: str) -> None:
        """One more step of the campaign, in order."""
        self.record(steps=[*self._facts["steps"], StepRecord(step=step, seconds=seconds, outcome=outcome)])

    def end(self, outcome: Outcome, ended: str, *sentences: str) -> None:
        """The run is over; ``sentences`` say what happened."""
        self.record(outcome=outcome, ended=ended, what_happened=[*self._facts["what_happened"], *sentences])

    def add_file(self, source: Path, name: str) -> Path:
        """Where the archive now holds a copy of ``source``: ``name`` is relative, with ``/``.

        Raises: ArchiveError if ``name`` leaves the archive or stands there already, or on a full disk.
        """
        pure = PurePosixPath(name)
        if pure.is_absolute() or ".." in pure.parts or not pure.parts:
            raise ArchiveError(f"{name!r}: is not a path inside an archive")
        target = self.path / pure
        if target.exists():
            raise ArchiveError(f"{target}: is there already; nothing in an archive is overwritten")
        try:
            target.parent.mkdir(parents=True, exist_ok=True)
            shutil.copyfile(source, target)
        except OSError as error:
            target.unlink(missing_ok=True)  # half a copy
            raise ArchiveError(f"{source}: cannot be copied to {target}: {error.strerror}") from error
        return target

    def seal(self, secrets: Sequence[bytes] = (), *, convert: Convert = to_parquet) -> None:
        """The archive is closed: no secret in it, traces as Parquet, RO-Crate metadata, checksums of every file.

        What was recorded is removed once it was converted, spans by ``convert``; what cannot be (cut off in its header,
        no room) is kept, and ``limitations`` says so.
        Raises: ArchiveError; then the archive is as readable as before, and may be sealed again.
        """
        _refuse_odd_files(self.path)  # before anything is changed
        _refuse_secrets(self.path, manifest.files(self.path), secrets)
        began_ns = training_began(self.path)  # one origin for the tables of all hosts
        for own in all_recorded(self.path):
            self._replace(own.raw, own.table, functools.partial(convert, own, began_ns))
            self._replace(own.connections_raw, own.connections, functools.partial(convert_samples, own, began_ns))
        self._run_file.release()
        try:
            # The reserve is gone by now: the manifest would list it.
            names = [name for name in manifest.files(self.path) if name != CRATE]
            crate.write(self.run, names, self.path)
            manifest.write(self.path, manifest.checksums(self.path, [*names, CRATE]))
        except BaseException:  # Ctrl-C too: unsealed, it may go on to grow
            self._run_file.keep()
            raise
        self.let_go()

    def let_go(self) -> None:
        """Another process may go on writing it."""
        self._lock.close()

    def _hold(self) -> None:
        self._lock.enter_context(held(self.path))

    def _replace(self, raw: Place, table: Place, convert: Callable[[], object]) -> None:
        if not raw.exists():
            return
        try:
            convert()
        except ArchiveError as error:
            table.path.unlink(missing_ok=True)  # it would be believed first, and is not verified
            sentence = f"{raw.name} is kept as recorded: {error}"
            if sentence not in self.run.limitations:
                self.limited(sentence)
        else:
            raw.path.unlink()


def amend(path: Path, names: Sequence[str]) -> None:
    """The sealed archive vouches for the files ``names``, which were written anew; for the others nothing changes.

    Other files keep the checksums they were sealed with, so that amending never hides an alteration.
    Raises: ArchiveError if the archive is not sealed or a file is missing.
    """
    with held(path, waits=True):  # another command may amend it, too: each would forget what the other wrote
        sealed = manifest.read(path)
        known = {**sealed, **dict.fromkeys(names, "")}
        parts = sorted(name for name in known if name != CRATE and (Place(path) / name).is_plain())  # not itself
        crate.write(read_run(path), parts, path)
        manifest.write(path, {**sealed, **manifest.checksums(path, [*names, CRATE])})


def _refuse_odd_files(path: Path) -> None:
    """Raises: ArchiveError for what no checksum can vouch for (links, special files) or no crate can name."""
    for name in manifest.files(path):
        if any("\ud800" <= character <= "\udfff" for character in name):
            raise ArchiveError(f"{path / name!r}: its name is not UTF-8; rename it, then seal again")
        if not (Place(path) / name).is_plain():
            raise ArchiveError(f"{path / name}: is a link or no plain file; remove it, then seal again")


def _refuse_secrets(root: Path, names: Iterable[str], secrets: Sequence[bytes]) -> None:
    """Nothing, if no file of ``names`` below ``root`` holds a secret. Raises: ArchiveError naming the first that does.

    Also raised for a secret of fewer than 8 bytes, which would be found by accident. One of several lines (a private
    key) counts as found when any of its long lines is: it may have been indented, or its line ends changed. What is
    compressed or encoded cannot be seen.
    """
    needles = [needle for secret in secrets for needle in _needles(secret)]
    if not needles:
        return
    for name in names:
        if _holds(Place(root) / name, needles):
            raise ArchiveError(f"{root / name}: holds a secret of the run (a key or token); remove it, then seal again")


def _needles(secret: bytes) -> tuple[bytes, ...]:
    stripped = secret.strip()
    if len(stripped) < SHORTEST_BYTES:
        raise ArchiveError(f"a secret of {len(stripped)} bytes cannot be searched for; use at least {SHORTEST_BYTES}")
    lines = [line.strip() for line in stripped.splitlines()]
    # "-----BEGIN ..." is the same in every key, and so no secret.
    long = tuple(line for line in lines if len(line) >= LONG_LINE_BYTES and not line.startswith(b"-----"))
    return long if len(lines) > 1 and long else (stripped,)


def _holds(place: Place, needles: Sequence[bytes]) -> bool:
    overlap = max(len(needle) for needle in needles) - 1
    tail = b""
    try:
        with place.opened() as file:
            while chunk := file.read(manifest.CHUNK_BYTES):
                window = tail + chunk
                if any(needle in window for needle in needles):
                    return True
                tail = window[-overlap:]  # a secret may lie across two chunks
    except OSError as error:
        raise ArchiveError(f"{place}: cannot be searched for secrets: {error.strerror}") from error
    return False


def _made(path: Path) -> bool:
    """Whether this call made the directory ``path``; False if it was there. Raises: OSError."""
    path.parent.mkdir(parents=True, exist_ok=True)
    try:
        path.mkdir()
    except FileExistsError:
        return False
    return True
