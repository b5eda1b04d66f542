"""What a host's worker appends to its trace, while it trains: only new bytes are read, and nothing is asked of it.

::

    hosts of this machine     RUN_DIR/spans.bin or connections.bin, from where one stopped reading
    other machines            ssh HOST tail --follow, a session each that stays; small files by cat, now and then
"""

from __future__ import annotations

import os
import subprocess
from pathlib import Path
from typing import Protocol

from e2c_dl.archive import layout
from e2c_dl.beneath import Place
from e2c_dl.errors import ArchiveError, TestbedError
from e2c_dl.testbeds import programs
from e2c_dl.testbeds.base import Access

PIECE_BYTES = 1 << 22  # read at once: a late look must not take all of the memory
ANSWER_S = 10.0


class Tail(Protocol):
    """The files of one host that is up, of which one grows."""

    def more(self) -> bytes:
        """What was appended to that since the last call; nothing if it is not there (any more)."""

    def file(self, name: str) -> bytes | None:
        """A small file of its run directory; None if there is none, or it does not answer."""

    def close(self) -> None:
        """Ends what was started for it."""


def tail_of(access: Access, state_dir: Path, name: str = layout.SPANS_RAW) -> Tail:
    """The tail of the file ``name`` of ``access``, of a run whose own directory on this machine is ``state_dir``."""
    run_dir = Path(access.run_dir)
    return LocalTail(run_dir, name) if run_dir.is_relative_to(state_dir) else RemoteTail(access, name)


class LocalTail:
    """Conforms to Tail, for a run directory on this machine. A host may put anything there: links are not followed."""

    def __init__(self, run_dir: Path, name: str = layout.SPANS_RAW) -> None:
        self._place, self._name = Place(run_dir), name
        self._read = 0

    def more(self) -> bytes:
        try:
            with (self._place / self._name).opened() as file:
                file.seek(self._read)
                found = file.read(PIECE_BYTES)
        except (ArchiveError, OSError):  # not yet, or not any more
            return b""
        self._read += len(found)
        return found

    def file(self, name: str) -> bytes | None:
        try:
            return (self._place / name).read()
        except (ArchiveError, OSError):
            return None

    def close(self) -> None:
        """There is nothing to end."""


class RemoteTail:
    """Conforms to Tail, over SSH; a session that ends is begun anew where it ended."""

    def __init__(self, access: Access, name: str = layout.SPANS_RAW) -> None:
        self._access, self._name = access, name
        self._read = 0
        self._session: subprocess.Popen[bytes] | None = None

    def more(self) -> bytes:
        if self._session is None or self._session.poll() is not None:
            self.close()
            try:
                self._begin()
            except (TestbedError, OSError):  # its network is gone, or not there yet
                return b""
        found = b"".join(iter(self._piece, b""))
        self._read += len(found)
        return found

    def file(self, name: str) -> bytes | None:
        try:
            argv = programs.ssh_argv(self._access, "cat", f"{self._access.run_dir}/{name}")
            done = subprocess.run(
                argv, stdin=subprocess.DEVNULL, capture_output=True, timeout=ANSWER_S, check=False,
                start_new_session=True,
            )  # fmt: skip
        except (subprocess.TimeoutExpired, TestbedError, OSError):
            return None
        return done.stdout if done.returncode == 0 else None

    def close(self) -> None:
        if self._session is not None:
            self._session.kill()
            with self._session:  # closes its pipe and reaps it
                pass
            self._session = None

    def _begin(self) -> None:
        where = f"{self._access.run_dir}/{self._name}"
        argv = programs.ssh_argv(self._access, "tail", f"--bytes=+{self._read + 1}", "--follow=name", "--retry", where)
        self._session = subprocess.Popen(
            argv, bufsize=0, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL,
            start_new_session=True,  # Ctrl-C ends the watching in order
        )  # fmt: skip
        assert self._session.stdout is not None
        os.set_blocking(self._session.stdout.fileno(), False)

    def _piece(self) -> bytes:
        assert self._session is not None
        assert self._session.stdout is not None
        try:
            return os.read(self._session.stdout.fileno(), PIECE_BYTES)
        except BlockingIOError:
            return b""
