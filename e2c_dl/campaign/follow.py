"""Follow a training from outside while it runs: rank 0's progress, and whether the emulation still lives."""

from __future__ import annotations

import json
import subprocess
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager

from e2c_dl.archive import layout
from e2c_dl.archive.progress import Progress
from e2c_dl.testbeds.access import ssh_argv
from e2c_dl.testbeds.base import Access

_WATCH_EVERY_S = 0.5


@contextmanager
def followed(rank0: Access, tell: Callable[[Progress], None]) -> Iterator[None]:
    """While in it, every line that rank 0 appends to its progress file reaches ``tell``, from a thread of its own."""
    argv = ssh_argv(rank0, "tail", "--lines=+1", "--follow=name", "--retry", f"{rank0.run_dir}/{layout.PROGRESS}")
    tail = subprocess.Popen(
        argv, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True
    )
    thread = threading.Thread(target=_read, args=(tail, tell), name="progress", daemon=True)
    thread.start()
    try:
        yield
    finally:
        tail.terminate()
        tail.wait()
        thread.join()


@contextmanager
def watched(alive: Callable[[], str | None], lost: Callable[[str], None]) -> Iterator[None]:
    """While in it, ``alive()`` is asked twice a second; when it names a failure, ``lost`` is told, once."""
    stop = threading.Event()

    def watch() -> None:
        while not stop.wait(_WATCH_EVERY_S):
            failure = alive()
            if failure is not None:
                lost(failure)
                return

    thread = threading.Thread(target=watch, name="watch", daemon=True)
    thread.start()
    try:
        yield
    finally:
        stop.set()
        thread.join()


def stop_workers(accesses: tuple[Access, ...]) -> None:
    """Ask every host's worker to stop: it keeps what it traced and says that it was stopped."""
    asked = [
        subprocess.Popen(
            ssh_argv(access, access.python, "-m", "e2c_dl.drivers.live", "stop", access.run_dir),
            stdin=subprocess.DEVNULL,
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
        )
        for access in accesses
    ]
    for process in asked:
        try:
            process.wait(timeout=20)
        except subprocess.TimeoutExpired:
            process.kill()
            process.wait()


def _read(tail: subprocess.Popen[str], tell: Callable[[Progress], None]) -> None:
    for line in tail.stdout or ():
        tell(parsed(line))


def parsed(line: str) -> Progress:
    """One line of a worker's progress file. Raises: ValueError if it is none."""
    said = json.loads(line)
    return Progress(
        iteration=int(said["iteration"]),
        iterations=int(said["iterations"]),
        loss=said.get("loss"),
        accuracy=said.get("accuracy"),
        elapsed_s=float(said["elapsed_s"]),
        remaining_s=said.get("remaining_s"),
    )
