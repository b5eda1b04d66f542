"""Precedence of a process over others, for those that must act in time while training takes the cores."""

from __future__ import annotations

import os

NICE = -15


def raise_priority() -> str:
    """Makes this process run before others if that is permitted; what came of it, for the archive."""
    try:
        # The lowest real-time priority does: nothing else here is real-time, and the kernel keeps a share for the rest.
        os.sched_setscheduler(0, os.SCHED_FIFO, os.sched_param(1))
        return "SCHED_FIFO 1"
    except OSError as not_real_time:
        try:
            os.setpriority(os.PRIO_PROCESS, 0, NICE)
            return f"nice {NICE} (real-time: {not_real_time.strerror})"
        except OSError as not_nice:
            return f"nice {os.getpriority(os.PRIO_PROCESS, 0)} (better: {not_nice.strerror})"
