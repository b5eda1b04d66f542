"""A relay's socket without a relay: answers changes as one does, and keeps them."""

import json
import socket
import threading
import time
from pathlib import Path


class FakeRelay:
    """Serves in a thread until it is left. ``changes``: (monotonic ns, request), in order."""

    def __init__(self, path: Path) -> None:
        self.changes: list[tuple[int, dict]] = []
        self.refuses: str | None = None
        self._path = path
        self._socket = socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM)
        self._socket.bind(str(path))
        self._thread = threading.Thread(target=self._serve, daemon=True)

    def __enter__(self) -> "FakeRelay":
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        with socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM) as farewell:
            farewell.sendto(b"", str(self._path))
        self._thread.join()
        self._socket.close()

    def _serve(self) -> None:
        while True:
            content, descriptors, _, _ = socket.recv_fds(self._socket, 1 << 18, 1)
            if not content:
                return
            now_ns = time.monotonic_ns()
            answer = {"error": self.refuses} if self.refuses else {"monotonic_ns": now_ns}
            self.changes.append((now_ns, json.loads(content)["change"]))
            with socket.socket(fileno=descriptors[0]) as answering:
                answering.sendall(json.dumps(answer).encode())
