"""One side of a benchmark, in a process of its own that stays: asked once a line, it does its work once and answers."""

from __future__ import annotations

import json
import subprocess
import sys
from types import TracebackType
from typing import Any


class Asked:
    """The process of ``python -m module arguments``. Use it as a context."""

    def __init__(self, module: str, *arguments: str) -> None:
        command = [sys.executable, "-m", module, *arguments]
        self._process = subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)

    def __enter__(self) -> Asked:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if self._process.poll() is None:
            self._process.kill()
        self._process.communicate()

    def run(self) -> dict[str, Any]:
        """What it answers, a JSON object, when its work was done once more."""
        assert self._process.stdin is not None
        assert self._process.stdout is not None
        self._process.stdin.write("\n")
        self._process.stdin.flush()
        answer: dict[str, Any] = json.loads(self._process.stdout.readline())
        return answer
