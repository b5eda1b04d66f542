"""EnOSlib's Vagrant provider, as a program of its own: machines come up in the current directory.

::

    python -m e2c_dl.testbeds.e2clab.vagrant_up < configuration.json      vagrant tells its progress on the output;
                                                                          how to reach the machines: machines.json

A program, since the provider lets vagrant write to whatever this process's output is, and works in its directory.
"""

from __future__ import annotations

import json
import sys
from collections.abc import Mapping
from pathlib import Path
from typing import Any

MACHINES = "machines.json"
"""Name -> address, port, user, key file."""


def up(configuration: Mapping[str, Any]) -> dict[str, dict[str, Any]]:
    """The machines of ``configuration``, up. Raises: subprocess.CalledProcessError: vagrant failed, and said why."""
    import enoslib as en

    roles, _ = en.Vagrant(en.VagrantConf.from_dictionary(dict(configuration))).init()
    return {
        str(host.alias): {"address": host.address, "port": int(host.port), "user": host.user, "key": host.keyfile}
        for host in roles.all()
    }


def main() -> None:
    """Reads the configuration, writes the machines."""
    import subprocess

    try:
        found = up(json.load(sys.stdin))
    except subprocess.CalledProcessError as error:
        sys.exit(f"{' '.join(map(str, error.cmd))} ended with status {error.returncode}")
    Path(MACHINES).write_text(json.dumps(found), encoding="utf-8")


if __name__ == "__main__":
    main()
