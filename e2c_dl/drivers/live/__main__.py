"""``python -m e2c_dl.drivers.live train|begin RUN_DIR ID``, or ``wait|stop RUN_DIR``: see :mod:`e2c_dl.drivers.live`.

Only ``train`` imports what trains.
"""

from __future__ import annotations

import argparse
import os
import signal
import sys
from contextlib import suppress
from pathlib import Path

# Before torch is imported anywhere: one thread per rank, also where torch reads the environment first.
os.environ.setdefault("OMP_NUM_THREADS", "1")

from e2c_dl.archive import layout
from e2c_dl.drivers.live import detached
from e2c_dl.errors import E2cDlError

WAIT_S = 60.0  # at a time: an ssh connection that says nothing for longer may be cut on its way


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
    begin = commands.add_parser(
        "begin", help="begin that in the background, with what it needs as JSON on standard input"
    )
    begin.add_argument("run_dir", type=Path, help="starts empty")
    for command in (train, begin):
        command.add_argument("id", help="E2Clab's _id of this host: 1_1_1")
    for name, what in (("wait", f"wait for its end, {WAIT_S:g} s at most, and say how it ended"), ("stop", "end it")):
        commands.add_parser(name, help=what).add_argument("run_dir", type=Path)
    chosen = parser.parse_args(arguments)
    try:
        return _COMMANDS[chosen.command](chosen)
    except (E2cDlError, OSError) as error:
        sys.stderr.write(f"{error}\n")
        return error.exit_code if isinstance(error, E2cDlError) else 1


def _train(chosen: argparse.Namespace) -> int:
    # Before what takes seconds to import: whoever stops it by then would get no outcome. Let through once it can tell.
    signal.pthread_sigmask(signal.SIG_BLOCK, detached.STOPPING)
    from e2c_dl.drivers.live.process import run_worker

    return run_worker(chosen.run_dir, chosen.id)


def _begin(chosen: argparse.Namespace) -> int:
    try:
        detached.begin(chosen.run_dir, chosen.id, sys.stdin)
    except (E2cDlError, OSError) as error:
        with suppress(OSError):  # for wait, as far as there is room
            (chosen.run_dir / layout.WORKER_LOG).write_text(f"{error}\n")
        raise  # for the exit status, which the launch sees
    return 0


def _wait(chosen: argparse.Namespace) -> int:
    said = detached.wait(chosen.run_dir, WAIT_S)
    if said is None:
        print(detached.TRAINING)
    elif said:
        sys.stderr.write(f"{said}\n")
        return 1
    return 0


def _stop(chosen: argparse.Namespace) -> int:
    detached.stop(chosen.run_dir)
    return 0


_COMMANDS = {"train": _train, "begin": _begin, "wait": _wait, "stop": _stop}


if __name__ == "__main__":
    sys.exit(main())
