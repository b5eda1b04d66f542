"""Numbers of process groups: -2 for that of all ranks, else the same on every rank of the group."""

from __future__ import annotations

from typing import Any

WORLD = -2


def number_of(group: Any) -> int:
    """Of torch's ``group``; None is that of all ranks."""
    from torch.distributed import distributed_c10d as c10d

    if group is None or group is c10d.GroupMember.WORLD:
        return WORLD
    name = getattr(group, "group_name", "")
    if name.isdigit():
        return int(name)
    names = sorted(map(str, c10d._world.pg_names.values()))
    return names.index(name) if name in names else 0
