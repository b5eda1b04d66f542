"""Boots the machine for one part of what runs inside it."""

from __future__ import annotations

import json
import sys
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from benchmarks.uml import boot

INSIDE = Path(__file__).with_name("inside.py")


def measured(*parts: str, enoslib: Mapping[str, str] | None = None) -> dict[str, Any]:
    """part -> what it printed."""
    request = json.dumps({"parts": parts, "enoslib": enoslib})
    done = boot.run([sys.executable, str(INSIDE)], text=request, timeout_s=180)
    assert done.status == 0, done.stderr + done.console
    said: dict[str, Any] = json.loads(done.stdout)
    return said
