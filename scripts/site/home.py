"""Where the project is published, as far as that is known where this runs: nothing in the tree names a host.

``E2CDL_HOME_URL`` says it, else what an archive of sources was made with (PKG-INFO), else git's ``origin``.
"""

from __future__ import annotations

import os
import re
import subprocess
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
_SSH = re.compile(r"^(?:ssh://)?git@([^:/]+)[:/]")


def url() -> str:
    """Such as ``https://forge.example/group/e2c_dl``; empty: not known."""
    told = os.environ.get("E2CDL_HOME_URL") or _of_sources() or _of_origin()
    told = _SSH.sub(r"https://\1/", told.strip()).removesuffix(".git").rstrip("/")
    return told if told.startswith("https://") and "@" not in told else ""


def of(path: str, home: str | None = None) -> str:
    """Where ``path`` of the tree can be read; empty: not known. Pictures are named by :func:`raw`."""
    return _below("blob" if (ROOT / path).is_file() else "tree", path, url() if home is None else home)


def raw(path: str, home: str | None = None) -> str:
    """The bytes of the file ``path``, for pictures."""
    return _below("raw", path, url() if home is None else home)


def _below(kind: str, path: str, home: str) -> str:
    if not home:
        return ""
    dash = "/-" if "gitlab" in home else ""  # as GitLab spells it
    return f"{home}{dash}/{kind}/HEAD/{path}"


def _of_sources() -> str:
    info = ROOT / "PKG-INFO"
    lines = info.read_text(encoding="utf-8").splitlines() if info.is_file() else []
    return next((line.partition(", ")[2] for line in lines if line.startswith("Project-URL: Source, ")), "")


def _of_origin() -> str:
    if not (ROOT / ".git").exists():
        return ""
    asked = ["git", "-C", str(ROOT), "remote", "get-url", "origin"]
    try:
        return subprocess.run(asked, capture_output=True, text=True, check=False).stdout
    except FileNotFoundError:
        return ""
