"""When links carried nothing and hosts did nothing, for seconds: what of it is no more once one of them never stalls.

::

    a -> b     |==|    |========== stall ===========|  |==|      lifted with b, for b did nothing most of that time;
    b              |---------- did nothing --------|             lifted with a -> b, if that never stalls
"""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, field

from e2c_dl.diagnosis.model import Element, ElementKind
from e2c_dl.diagnosis.replay.replay import Stall, Stalls
from e2c_dl.worlds.virtual.links import RankPair

Interval = tuple[float, float]  # from when until when, in seconds of training


@dataclass(frozen=True, kw_only=True)
class Stopped:
    """Seconds of training in which something stalled, as stalls of the run tell."""

    links: Mapping[RankPair, tuple[Interval, ...]] = field(default_factory=dict)  # whichever end stopped them
    hosts: Mapping[str, tuple[Interval, ...]] = field(default_factory=dict)

    @classmethod
    def of(cls, stalls: Stalls, ranks: Mapping[str, int], origin_ns: int) -> Stopped:
        """What ``stalls`` tell of a training that began at ``origin_ns``. ``ranks``: of hosts."""
        by_host: dict[str, list[Stall]] = {}
        for each in stalls.found:
            if each.element.kind is ElementKind.HOST:
                by_host.setdefault(each.element.src, []).append(each)
        return cls(
            links={
                (ranks[src], ranks[dst]): _intervals([each for each in messages if each is not None], origin_ns)
                for (src, dst), messages in stalls.messages.items()
            },
            hosts={host: _intervals(each, origin_ns) for host, each in by_host.items()},
        )  # fmt: skip

    def sure(self, pair: RankPair, stalls: Sequence[Interval]) -> tuple[Interval, ...]:
        """Those ``stalls`` of a link that shares a line which are none of what others send over that."""
        return tuple(each for each in stalls if _mostly_within(each, self.links.get(pair, ())))

    def left(self, link: Element, stalls: Sequence[Interval], moving: Collection[Element]) -> tuple[Interval, ...]:
        """Those ``stalls`` of ``link`` that are left once those ``moving`` never stall."""
        if link in moving:
            return ()
        hosts = [each.src for each in moving if each.kind is ElementKind.HOST and each.src in (link.src, link.dst)]
        return tuple(
            each for each in stalls if not any(_mostly_within(each, self.hosts.get(host, ())) for host in hosts)
        )


NEVER = Stopped()


def _intervals(stalls: Sequence[Stall], origin_ns: int) -> tuple[Interval, ...]:
    found = ((each.begin_ns - origin_ns, each.begin_ns + each.length_ns - origin_ns) for each in stalls)
    return tuple((begin_ns / 1e9, end_ns / 1e9) for begin_ns, end_ns in found)


def _mostly_within(stall: Interval, times: Sequence[Interval]) -> bool:
    """Whether at least half of ``stall`` is in one of ``times``."""
    begin_s, end_s = stall
    return any(min(end_s, until_s) - max(begin_s, from_s) >= (end_s - begin_s) / 2 for from_s, until_s in times)
