"""``python -m e2c_dl.drivers.live train RUN_DIR ID | stop RUN_DIR``: see :mod:`e2c_dl.drivers.live`."""

from __future__ import annotations

import argparse
import os
import sys
from pathlib import Path

# Before torch is imported anywhere: one thread per rank, also where torch reads the environment first.
os.environ.setdefault("OMP_NUM_THREADS", "1")

from e2c_dl.drivers.live.process import run_worker, stop_worker
from e2c_dl.errors import E2cDlError


def main(arguments: list[str] | None = None) -> int:
    """The exit status of the command."""
    parser = argparse.ArgumentParser(
        prog="python -m e2c_dl.drivers.live", description="The training process on one host."
    )
    commands = parser.add_subparsers(dest="command", required=True)
    train = commands.add_parser("train", help="train as one rank, until the end")
    train.add_argument(
        "run_dir", type=Path, help="holds scenario/, members.json and run.key (mode 0600); starts empty otherwise"
    )
    train.add_argument("id", help="E2Clab's _id of this host: 1_1_1")
    stop = commands.add_parser("stop", help="end the training process of a run directory")
    stop.add_argument("run_dir", type=Path)
    chosen = parser.parse_args(arguments)
    try:
        return run_worker(chosen.run_dir, chosen.id) if chosen.command == "train" else stop_worker(chosen.run_dir)
    except E2cDlError as error:
        sys.stderr.write(f"{error}\n")
        return error.exit_code


if __name__ == "__main__":
    sys.exit(main())
