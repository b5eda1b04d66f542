"""Calls under way: torch's hooks are told where a call begins, but not that it was left by whatever it raised."""

from __future__ import annotations

from types import FrameType


def under_way(hooked: FrameType, most: int) -> int:
    """How many calls of the code of ``hooked``, that of torch's which calls a hook, it is within, up to ``most``.

    A call that raised is none of them. The nearest are a few frames away: only where there are fewer all are looked at.
    """
    code, found, frame = hooked.f_code, 0, hooked.f_back
    while frame is not None and found < most:
        found += frame.f_code is code
        frame = frame.f_back
    return found
