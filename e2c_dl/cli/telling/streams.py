"""Standard streams that a command outlives: closed ones, readers that go away, terminals that hang up.

::

    closed as it starts (2>&-)         /dev/null stands in: the next file opened would get its number, and its output
    nobody reads any more (| head)     what is said from then on is dropped; the command goes on, to its own exit code
    a full disk behind the output      an error, as for any file
    ... behind standard error          dropped: there is nowhere left to tell it
"""

from __future__ import annotations

import errno
import io
import os
import sys
from collections.abc import Collection
from typing import Any, TextIO

import click

_NOBODY_READS = frozenset({errno.EPIPE, errno.EIO})  # the second: the terminal is gone


class Lasting(io.FileIO):
    """The descriptor of a stream; once a write failed so that it does not matter, it leads to /dev/null."""

    def __init__(self, descriptor: int, dropped: Collection[int] | None) -> None:
        super().__init__(descriptor, "w", closefd=False)
        self._dropped = dropped  # errno of failures that do not matter; None: all of them
        self.failure: OSError | None = None

    def write(self, data: Any) -> int:  # bytes, or a view of them
        try:
            return super().write(data)
        except OSError as error:
            if self._dropped is not None and error.errno not in self._dropped:
                raise
            self.failure = error
            to_nowhere(self.fileno())
            return len(data)


def outlive() -> None:
    """From now on this process's standard streams are as the module says. Streams that others put there stay."""
    for descriptor, stream in enumerate((sys.stdin, sys.stdout, sys.stderr)):
        if stream is None:  # so Python has it for a closed one
            to_nowhere(descriptor)
    sys.stdin = sys.stdin or open(os.devnull)  # noqa: SIM115 - for as long as the process lives
    sys.stdout = _lasting(sys.stdout, 1, _NOBODY_READS)
    sys.stderr = _lasting(sys.stderr, 2, None)


def failure(stream: object) -> OSError | None:
    """Why nothing that is written to ``stream`` arrives any more; None while it does, as far as that is known."""
    raw = getattr(getattr(stream, "buffer", None), "raw", None)
    return raw.failure if isinstance(raw, Lasting) else None


def to_nowhere(descriptor: int) -> None:
    """``descriptor`` is /dev/null, here and for what is started from here."""
    nowhere = os.open(os.devnull, os.O_RDWR)
    if nowhere != descriptor:  # the lowest free number may have been this one
        os.dup2(nowhere, descriptor)
        os.close(nowhere)
    else:
        os.set_inheritable(descriptor, True)


def _lasting(stream: TextIO | None, descriptor: int, dropped: Collection[int] | None) -> TextIO:
    if stream is not None and stream is not (sys.__stdout__, sys.__stderr__)[descriptor - 1]:
        return stream
    raw = io.BufferedWriter(Lasting(descriptor, dropped))
    if not isinstance(stream, io.TextIOWrapper):
        return io.TextIOWrapper(raw, errors="backslashreplace", line_buffering=True)
    stream.flush()
    return io.TextIOWrapper(
        raw,
        encoding=stream.encoding,
        errors="backslashreplace",  # a terminal that knows no arrows must not end a command
        line_buffering=stream.line_buffering,
        write_through=stream.write_through,
    )


def say(line: str) -> None:
    """``line`` on standard error: standard output is a script's, or a result's."""
    from e2c_dl.formatting import visible

    click.echo(visible(f"e2c-dl: {line}", breaks=""), err=True)
