"""Watch over the hosts of a run, from when they are up until they are released: who ended meanwhile, and how."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager

from e2c_dl.archive.records import HostEnding

LOOK_EVERY_S = 0.5


class HostWatch:
    """What was seen so far. Read from any thread."""

    def __init__(self, endings: Callable[[], Mapping[str, HostEnding]], tell: Callable[[str], None]) -> None:
        self._endings, self._tell = endings, tell
        self._lock = threading.Lock()
        self._seen: dict[str, HostEnding] = {}

    @property
    def seen(self) -> Mapping[str, HostEnding]:
        """Hosts that ended so far -> how."""
        with self._lock:
            return dict(self._seen)

    def failure(self) -> str | None:
        """A sentence, if hosts have ended; None while all are up."""
        return "; ".join(f"host {host} ended: {ending.described()}" for host, ending in self.seen.items()) or None

    def look(self) -> None:
        """Look once more; who ended since is told."""
        with self._lock:  # two who look at once would tell twice
            new = {host: ending for host, ending in self._endings().items() if host not in self._seen}
            self._seen |= new
        for host, ending in new.items():
            self._tell(f"host {host} ended: {ending.described()}")


@contextmanager
def watched(endings: Callable[[], Mapping[str, HostEnding]], tell: Callable[[str], None]) -> Iterator[HostWatch]:
    """While in it, hosts are looked at twice a second; ``tell`` hears of each that ended, from a thread of its own."""
    watch, stop = HostWatch(endings, tell), threading.Event()

    def look() -> None:
        while not stop.wait(LOOK_EVERY_S):
            watch.look()

    thread = threading.Thread(target=look, name="hosts", daemon=True)
    thread.start()
    try:
        yield watch
    finally:
        stop.set()
        thread.join()
