"""Numbers of process groups: -2 for that of all ranks, else the same on every rank of the group.

torch numbers most groups, on all ranks alike. Of those that only their members make it has names alone, hashes, which
become numbers above torch's; two groups have the same in one of a million pairs. Two ranks, of which one sends to the
other, are a group of their own. A group that a script has made by itself may have no name: nobody knows which it is.
"""

from __future__ import annotations

import zlib
from typing import Any

from e2c_dl.trace.collectives import MOST_GROUP, WORLD

_HASHED = MOST_GROUP // 2  # from here on


def takes_part(group: Any) -> bool:
    """Whether this rank is in torch's ``group``, of which ranks can know that it is the same; None is that of all."""
    from torch.distributed import distributed_c10d as c10d

    return group is None or (group != c10d.GroupMember.NON_GROUP_MEMBER and _name_of(group) is not None)


def number_of(group: Any) -> int:
    """Of torch's ``group``, which this rank is in, or that has this number; None is that of all ranks."""
    from torch.distributed import distributed_c10d as c10d

    if isinstance(group, int):
        return group
    if group is None or group is c10d.GroupMember.WORLD:
        return WORLD
    name = _name_of(group) or ""
    if name.isdecimal() and int(name) < _HASHED:
        return int(name)
    return _hashed(name)


def number_of_pair(src: int, dst: int, group: Any, tag: int) -> int:
    """Of the messages from rank ``src`` to rank ``dst`` that torch keeps in order: of one ``group`` and ``tag``."""
    return _hashed(f"{number_of(group)} {src} {dst} {tag}")


def _name_of(group: Any) -> str | None:
    """None: it has none. Of a number, empty."""
    try:
        return str(getattr(group, "group_name", ""))
    except RuntimeError:  # as torch says it
        return None


def _hashed(name: str) -> int:
    return _HASHED + zlib.crc32(name.encode()) % (MOST_GROUP - _HASHED)
