"""Horovod's launcher, with no secret on a command line: ``python -m ... -np 2 python main.py``.

horovodrun writes all of its environment onto the command lines by which ranks are started, here and by ssh, where
every user of a machine can read them while training runs. What looks like a secret is kept out of them, by the table
by which Horovod keeps its own key out: ranks of this host inherit it, and to others ssh carries it (``SendEnv``).
"""

from __future__ import annotations

import importlib
import os
import re
import sys
from collections.abc import Mapping

from e2c_dl.redaction import found
from e2c_dl.secret_names import looks_secret
from e2c_dl.testbeds.own_programs import SENT_VARIABLE

_SENDABLE = re.compile(r"[\w.-]+")  # else ssh reads it as a pattern, or as two names


def secrets(environ: Mapping[str, str]) -> tuple[str, ...]:
    """Names of the variables in ``environ`` that hold a secret, by their names or by what they hold."""
    return tuple(sorted(name for name, value in environ.items() if value and (looks_secret(name) or any(found(value)))))


def main() -> None:
    """Becomes horovodrun, whose arguments are its own."""
    names = secrets(os.environ)
    if names:
        table = importlib.import_module("horovod.runner.common.util.env")
        try:
            table.IGNORE_REGEXES.update(f"{re.escape(name)}$" for name in names)
        except AttributeError:
            sys.exit(f"horovodrun: this Horovod writes {', '.join(names)} onto command lines; take it away, or 0.28.1")
        os.environ[SENT_VARIABLE] = " ".join(name for name in names if _SENDABLE.fullmatch(name))
    sys.argv[0] = "horovodrun"
    importlib.import_module("horovod.runner.launch").run_commandline()


if __name__ == "__main__":
    main()
