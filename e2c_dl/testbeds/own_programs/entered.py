"""What the run's sshd starts in place of what another host asked for: the same, in this host's own folder of the run.

::

    asked there   cd /a/run; PATH=/a/run/bin:... E2CDL_RUN_DIR=/a/run python main.py     by horovodrun, of host a
    started here  cd /b/run; PATH=/b/run/bin:... E2CDL_RUN_DIR=/b/run python main.py

A launcher names paths of its own host, and gives its ranks the environment that it has there.
"""

from __future__ import annotations

import os
import re
import shlex
import sys

from e2c_dl.testbeds.own_programs import DIRECTORY_VARIABLE

_NAMED = re.compile(rf"\b{DIRECTORY_VARIABLE}=('[^']*'|[^\s;']+)")


def here(command: str, run_dir: str) -> str:
    """``command``, in which the run's directory of the host that asked is this host's, ``run_dir``.

    >>> here("cd /a/run; E2CDL_RUN_DIR=/a/run /a/run/bin/python main.py", "/b/run")
    'cd /b/run; E2CDL_RUN_DIR=/b/run /b/run/bin/python main.py'
    """
    named = _NAMED.search(command)
    if named is None:
        return command
    there = shlex.split(named[1])[0]
    return re.sub(rf"{re.escape(there)}(?![\w.-])", lambda _: run_dir, command)


def main() -> None:
    """Become the shell that runs it; an interactive one where nothing was asked for."""
    shell, command = os.environ.get("SHELL") or "/bin/sh", os.environ.get("SSH_ORIGINAL_COMMAND")
    os.execv(shell, [shell] if command is None else [shell, "-c", here(command, sys.argv[1])])


if __name__ == "__main__":
    main()
