"""The back ends that emulate links, by the names that run.json and members.json have for them."""

from __future__ import annotations

from collections.abc import Iterable
from enum import Enum


class Backend(Enum):
    """What carries out the emulation of links, from the least to the most that it can do for a kernel's own links."""

    NONE = "none"  # nothing is shaped
    HTB = "htb"  # the hosts' own kernels, without netem: rates alone
    TC = "tc"  # the hosts' own kernels: HTB + netem
    RELAY = "relay"  # a userspace relay on TAP devices, for hosts that share one machine

    @property
    def by_kernel(self) -> bool:
        """Whether the hosts' kernels shape, told by tc."""
        return self in (Backend.HTB, Backend.TC)

    @classmethod
    def least(cls, backends: Iterable[Backend]) -> Backend:
        """What all of ``backends`` can do."""
        return min(backends, key=list(cls).index)  # members stand in this order
