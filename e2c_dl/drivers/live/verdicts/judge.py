"""The judge of a run that trains, a process on rank 0's host: ``python -m e2c_dl.drivers.live.verdicts.judge``.

It reads what :mod:`.lines` says, looks every EVERY_S, and ends with its input, or with its parent, the worker.
"""

from __future__ import annotations

import json
import math
import os
import sys
import time
from pathlib import Path

import msgspec

from e2c_dl import typed
from e2c_dl.archive.verdicts import Told
from e2c_dl.diagnosis.verdicts import EVERY_S, Judge
from e2c_dl.drivers.live.verdicts.lines import Heard, JudgeConfig, line
from e2c_dl.emulation.agent.main import Input
from e2c_dl.emulation.agent.worker_process import die_with_parent
from e2c_dl.errors import E2cDlError
from e2c_dl.scenario.load import load

LOWER_PRIORITY = 10
_STDIN = 0


def serve(judge: Judge, told: Input) -> None:
    """Judge until the input ends. Raises: ArchiveError, msgspec's errors: what came is none of this protocol."""
    due_ns = math.inf
    while not told.ended:
        for each in told.lines(due_ns):
            take(judge, typed.decode(each, Heard))
            due_ns = min(due_ns, time.monotonic_ns() + EVERY_S * 1e9)  # from the first news on
        now_ns = time.monotonic_ns()
        if now_ns < due_ns:
            continue
        due_ns = now_ns + EVERY_S * 1e9
        verdict = judge.look()
        took_s = (time.monotonic_ns() - now_ns) / 1e9
        if verdict is not None:
            said = Told(slow=verdict.slow, at_s=round(judge.trained_s, 6), took_s=round(took_s, 6))
            sys.stdout.buffer.write(line(said))
            sys.stdout.buffer.flush()


def take(judge: Judge, heard: Heard) -> None:
    """What was ``heard`` is known to ``judge``."""
    news = heard.said
    judge.add(heard.rank, news.spans)
    if news.clock is not None:
        judge.aligned(heard.rank, news.clock)
    if news.facts is not None:
        judge.is_host(heard.rank, news.facts)


def main() -> int:
    """The process. Returns its exit status."""
    told = Input(_STDIN)
    try:
        config = typed.decode("".join(told.lines(math.inf)[:1]), JudgeConfig)
        if not die_with_parent(config.worker_pid):
            return 0
        os.nice(LOWER_PRIORITY)
        judge = Judge(load(Path(config.scenario)), config.emulation)
    except (E2cDlError, msgspec.MsgspecError) as error:
        print(json.dumps({"error": str(error)}), flush=True)
        return 1
    print(json.dumps({"ready": True}), flush=True)
    try:
        serve(judge, told)
    except (E2cDlError, msgspec.MsgspecError) as error:
        print(error, file=sys.stderr, flush=True)
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(main())
