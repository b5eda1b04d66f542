"""Lines between ranks, rank 0 and its judge: what hosts traced goes in, verdicts come out.

::

    {"scenario": ..., "worker_pid": ..., ...}       JudgeConfig, one line; it answers {"ready": true}
    {"rank": 1, "said": {"spans": "RTJDU1B...", ...}}   Heard: the News of a rank
    {"slow": [...], "at_s": ..., "took_s": ...}     a verdict (archive.verdicts)
    (end)                                           training is over
"""

from __future__ import annotations

from typing import Any

import msgspec

from e2c_dl.archive.records import HostFacts
from e2c_dl.trace.model import ClockAlignment


class JudgeConfig(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """What a judge is told as it begins."""

    scenario: str  # its folder
    worker_pid: int  # its parent
    emulation: dict[str, Any]  # how links and hosts are emulated, as in run.json


class News(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True, forbid_unknown_fields=True):
    """What a rank has to tell since it told last."""

    spans: bytes = b""  # what was appended to its spans.bin; JSON carries it as base64
    clock: ClockAlignment | None = None
    facts: HostFacts | None = None


class Heard(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """News of a rank, as the coordinator knows it."""

    rank: int
    said: News


def line(said: msgspec.Struct) -> bytes:
    """``said`` in one line."""
    return msgspec.json.encode(said) + b"\n"
