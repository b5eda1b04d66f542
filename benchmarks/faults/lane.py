"""A lane: runs of the campaign one by one, in namespaces of their own, so that all they leave is seen, and ends.

``python -m benchmarks.faults.lane SEED KEEP PATIENCE NUMBER...`` is its inside, and prints a line of JSON for each run;
:func:`side_by_side` starts lanes and reads them.
"""

from __future__ import annotations

import json
import os
import re
import shutil
import signal
import subprocess
import sys
import tempfile
from collections.abc import Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack, suppress
from dataclasses import asdict
from pathlib import Path
from queue import SimpleQueue
from typing import Any

from ordinary_user import covered, needed

from benchmarks.faults import processes
from benchmarks.faults.drawn import Drawn, drawn
from benchmarks.faults.injecting import inject
from benchmarks.faults.judging import Ended, wrong
from benchmarks.faults.left import look
from benchmarks.faults.running import Running
from benchmarks.faults.site import Site, prepared

PIECE = 10  # runs that a lane carries out, at most

_UNSHARE = (
    *("unshare", "--net", "--mount", "--pid", "--ipc", "--fork", "--kill-child=SIGKILL", "--mount-proc"),
    "--propagation=private",
)


def side_by_side(
    chosen: Sequence[Drawn], lanes: int, keep: Path | None = None, patience: int = 1
) -> Iterator[dict[str, Any]]:
    """What came of each, as it comes. Those in docker are one lane: its images have one daemon at a time.

    Each may last ``patience`` times as long as it has: more than 1 on a machine that does other things beside it.
    """
    told: SimpleQueue[dict[str, Any]] = SimpleQueue()

    def carry_out(piece: Sequence[Drawn]) -> None:
        for one in results(piece[0].seed, [each.number for each in piece], keep, patience):
            told.put(one)

    docker = [one for one in chosen if one.testbed == "docker"]
    others = [one for one in chosen if one.testbed != "docker"]
    pieces = [docker] if docker else []
    size = max(1, min(PIECE, -(-len(others) // lanes)))
    pieces += [others[begin : begin + size] for begin in range(0, len(others), size)]
    with ThreadPoolExecutor(lanes) as threads:
        for piece in pieces:
            threads.submit(carry_out, piece)
        for _ in chosen:
            yield told.get()


def results(seed: int, numbers: Sequence[int], keep: Path | None, patience: int) -> Iterator[dict[str, Any]]:
    """What came of each of ``numbers``, as it is known; one that ended its lane is said to have done so."""
    if keep:
        keep.mkdir(parents=True, exist_ok=True)
    words = [str(seed), str(keep.absolute()) if keep else "", str(patience), *map(str, numbers)]
    environ = {**os.environ, "PYTHONPATH": os.pathsep.join(each for each in sys.path if each)}
    argv = [*_UNSHARE, sys.executable, "-m", "benchmarks.faults.lane", *words]
    root = Path(__file__).parents[2]
    lane = subprocess.Popen(argv, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, env=environ, cwd=root, text=True)
    told = set()
    assert lane.stdout is not None
    try:
        for line in lane.stdout:
            one = json.loads(line)
            told.add(one["number"])
            yield one
    finally:
        lane.kill()
        lane.wait()
        lane.stdout.close()
    for number in numbers:
        if number not in told:
            one = drawn(seed, number)
            yield {**asdict(one), "wrong": [f"the lane ended with {lane.returncode}"], "seconds": 0.0, "hits": {}}


def main(seed: str, keep: str, patience: str, *numbers: str) -> None:
    """Carry out these runs, those of one testbed together."""
    _own_place(keep)
    out = os.dup(1)
    os.dup2(2, 1)  # whatever else is printed is no result
    chosen = [drawn(int(seed), int(number)) for number in numbers]
    for testbed in dict.fromkeys(one.testbed for one in chosen):
        with prepared(testbed):
            for one in chosen:
                if one.testbed == testbed:
                    told = carried_out(one, Path(keep) if keep else None, int(patience))
                    os.write(out, (json.dumps(told) + "\n").encode())


def carried_out(one: Drawn, keep: Path | None, patience: int) -> dict[str, Any]:
    """The run ``one``, and what is wrong with it; its folder is kept in ``keep``, if something is."""
    folder = Path(tempfile.mkdtemp(prefix="f", dir="/tmp"))  # a socket's path must be short
    with ExitStack() as resources:
        resources.callback(_reap)
        resources.callback(shutil.rmtree, folder, ignore_errors=True)
        small = any(fault.kind.endswith("disk-full") for fault in one.faults)
        site = Site(folder, one.testbed, small, resources)
        before = look(site)
        running = Running(site.deploy, site.environ, folder)
        resources.callback(_end, running)
        hits = {}
        for fault in one.faults:
            if running.until(fault.stage, fault.after_s) and (hit := inject(fault, running, site)) is not None:
                hits[fault.kind] = hit
        limit_s = patience * one.limit_s
        code = running.ended(limit_s)
        lasted_s = running.seconds
        ended = Ended(one, code, running.said, hits, frozenset(running.traced), _run_id(running.said), limit_s)
        found = wrong(ended, site, before, _thaw)
        told: dict[str, Any] = {
            **asdict(one), "hits": hits, "exit_code": code, "seconds": round(lasted_s, 1), "run": ended.run_id,
            "happened": ended.happened, "last_line": ended.last_line, "commands": ended.commands, "wrong": found,
        }  # fmt: skip
        if found and keep is not None:
            _kept(site, running, told, keep / f"{one.seed}-{one.number}")
        return told


def _kept(site: Site, running: Running, told: dict[str, Any], place: Path) -> None:
    shutil.rmtree(place, ignore_errors=True)
    place.mkdir(parents=True)
    (place / "said").write_text(running.said)
    (place / "result.json").write_text(json.dumps(told, indent=1))
    with suppress(shutil.Error, OSError):
        shutil.copytree(site.disk, place / "archives", symlinks=True)


def _end(running: Running) -> None:
    """Nothing of a run that did not end goes on beside the next one."""
    if not running.over:
        running.process.kill()
        running.process.wait()


def _reap() -> None:
    """This is the first process of its namespace, to which fall those whose parents have ended."""
    with suppress(ChildProcessError):
        while os.waitpid(-1, os.WNOHANG)[0]:
            pass


def _thaw() -> None:
    """Who was stopped goes on, as after a frozen machine has come back."""
    for process in processes.every():
        with suppress(ProcessLookupError):
            if process.pid > 1:
                os.kill(process.pid, signal.SIGCONT)


def _run_id(said: str) -> str:
    found = re.search(r"^\s+run ([0-9a-f]{8}), archive", said, re.MULTILINE)
    return found[1] if found else ""


def _own_place(keep: str) -> None:
    """A loopback device, shared memory and a /tmp of one's own, in which what is left is seen.

    ``keep`` may be in the other /tmp.
    """
    subprocess.run(["ip", "link", "set", "lo", "up"], check=True)
    subprocess.run(["mount", "-t", "tmpfs", "tmpfs", "/dev/shm"], check=True)
    aside = Path(tempfile.mkdtemp(dir="/mnt")) if os.access("/mnt", os.W_OK) else Path("/mnt")
    within = [place for place in (*needed(), *([Path(keep)] if keep else [])) if Path("/tmp") in place.parents]
    lines = [*covered(Path("/tmp"), within, aside), "chmod 1777 /tmp"]
    subprocess.run(["sh", "-c", "\n".join(["set -e", *lines])], check=True)
    with suppress(OSError):
        aside.rmdir()


if __name__ == "__main__":
    main(*sys.argv[1:])
