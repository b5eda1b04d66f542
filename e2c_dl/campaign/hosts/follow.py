"""Follow a training from outside while it runs: rank 0's progress, whose worker failed, whether the emulation lives."""

from __future__ import annotations

import queue
import subprocess
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress

from e2c_dl.archive import layout
from e2c_dl.archive.host_records import parsed_report
from e2c_dl.archive.records import Doing, Noticed
from e2c_dl.campaign.request import Console
from e2c_dl.errors import ArchiveError, TestbedError
from e2c_dl.testbeds import programs
from e2c_dl.testbeds.base import Access

_WATCH_EVERY_S = 0.5
_LOOK_EVERY_S = 0.2  # where tail is not told of changes; else it would be a second late
STOP_S = 20.0
ALONE_S = 10.0
"""Workers that have met end within moments of one that fails; those that wait for it to come do so for a minute."""


@contextmanager
def followed(rank0: Access, console: Console) -> Iterator[None]:
    """While in it, ``console`` is told, from a thread of its own, every line that rank 0 appends to its files of
    set-up and of progress."""
    files = [f"{rank0.run_dir}/{name}" for name in (layout.SETUP, layout.PROGRESS)]
    tail_argv = ("tail", "--quiet", "--lines=+1", "--follow=name", "--retry", f"--sleep-interval={_LOOK_EVERY_S}")
    argv = programs.ssh_argv(rank0, *tail_argv, *files)
    tail = subprocess.Popen(
        argv, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True, errors="replace"
    )
    thread = threading.Thread(target=_read, args=(tail, console), name="progress", daemon=True)
    thread.start()
    try:
        yield
    finally:
        tail.terminate()  # tail --retry would follow for ever
        tail.wait()
        thread.join()


@contextmanager
def watched(
    alive: Callable[[], str | None], lost: Callable[[str, float], None], *, once_more: bool = False
) -> Iterator[None]:
    """While in it, ``alive()`` is asked twice a second; when it names a failure, ``lost`` is told, once.

    It is also told when all was last seen well (Unix time): others may have noticed before. ``once_more``: it is asked
    a last time when it is left, as they may be the reason for that.
    """
    stop = threading.Event()

    def watch() -> None:
        well_s, over = time.time(), False
        while not over:
            over = stop.wait(_WATCH_EVERY_S)  # not sleep: it ends at once when it is left
            asked_s = time.time()
            failure = alive() if once_more or not over else None
            if failure is not None:
                lost(failure, well_s)
                return
            well_s = asked_s

    thread = threading.Thread(target=watch, name="watch", daemon=True)
    thread.start()
    try:
        yield
    finally:
        stop.set()
        thread.join()


@contextmanager
def ended_together(say: Callable[[str], None], stop: Callable[[], None]) -> Iterator[Callable[[str, str], None]]:
    """What hears of hosts on which training fails: which, and why; ``say`` is told of the first, from another thread.

    ``stop`` is called when no other has followed for ``ALONE_S``, and again until this is left: some may begin later.
    """
    heard: queue.SimpleQueue[str | None] = queue.SimpleQueue()

    def watch() -> None:
        first = heard.get()
        if first is None:
            return
        say(first)
        going = True
        while going:
            try:
                going = heard.get(timeout=ALONE_S) is not None
            except queue.Empty:
                stop()

    thread = threading.Thread(target=watch, name="failures", daemon=True)
    thread.start()
    try:
        yield lambda host, why: heard.put(f"{host}: {why}")
    finally:
        heard.put(None)
        thread.join()


def stop_workers(accesses: tuple[Access, ...]) -> None:
    """Ask every host's worker to stop: it keeps what it traced and says that it was stopped."""

    def stop(access: Access) -> None:
        with suppress(TestbedError, OSError):  # the way to it is gone, and with it all that it was to
            argv = programs.ssh_argv(access, access.python, "-m", "e2c_dl.drivers.live", "stop", access.run_dir)
            programs.answer(access, argv, "", STOP_S)  # whatever it says: a worker that is gone need not be stopped

    programs.on_all(accesses, stop)


def _read(tail: subprocess.Popen[str], console: Console) -> None:
    for line in tail.stdout or ():
        try:
            said = parsed_report(line)
        except ArchiveError:
            continue  # cut off as tail was ended, or a banner of ssh: what follows is worth reading all the same
        if isinstance(said, Doing):
            console.doing(said)
        elif isinstance(said, Noticed):
            console.say(said.noticed)
        else:
            console.progress(said)
