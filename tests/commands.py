"""Commands in this process, as a terminal sees them: exit code, output, errors; a traceback is raised."""

from __future__ import annotations

import contextlib
import io
import os
import sys
from typing import NamedTuple
from unittest import mock

from e2c_dl.cli.main import main


class Said(NamedTuple):
    code: int
    out: str
    err: str


def said(*argv: object) -> Said:
    """What ``e2c-dl argv`` says. Raises: what no command foresees, which is a defect."""
    out, err, code, kept = io.StringIO(), io.StringIO(), 0, os.dup(1)
    with mock.patch.object(sys, "argv", ["e2c-dl", *map(str, argv)]):
        with contextlib.redirect_stdout(out), contextlib.redirect_stderr(err):
            try:
                main()
            except SystemExit as end:
                code = end.code if isinstance(end.code, int) else int(bool(end.code))
            finally:
                os.dup2(kept, 1)  # a disk that is full has it closed
                os.close(kept)
    return Said(code, out.getvalue(), err.getvalue())
