"""A relay's switch between hosts a, b, c, ... under a clock that is set by hand; what is handed over is kept."""

from __future__ import annotations

from collections.abc import Mapping
from types import MappingProxyType

from e2c_dl.emulation.relay.config import RelayConfig, RelayHost
from e2c_dl.emulation.relay.switch import LinkReport, Switch
from e2c_dl.topology import Bottleneck, Link, Pair

IP, ARP = b"\x08\x00", b"\x08\x06"
A_TO_B = ("a", "b")


def mac(number: int) -> str:
    return f"02:00:00:00:00:{number:02x}"


def frame(dst: str, size: int = 1000, ethertype: bytes = IP) -> bytes:
    """A frame of ``size`` bytes on the wire, with an empty vnet header before it."""
    head = bytes(10) + bytes.fromhex(dst.replace(":", "")) + bytes(6) + ethertype
    return head.ljust(10 + size, b"\0")


class Wire:
    """Host a has index 0 and mac(1), b has 1 and mac(2), and so on."""

    def __init__(
        self,
        links: Mapping[Pair, Link] = MappingProxyType({}),
        *bottlenecks: Bottleneck,
        names: str = "abc",
        seed: int = 1,
    ) -> None:
        hosts = tuple(
            RelayHost(name=n, netns_pid=1, device="eth1", address=f"198.19.0.{i}/16", mac=mac(i))
            for i, n in enumerate(names, 1)
        )
        self.config = RelayConfig(
            hosts=hosts, links=links, bottlenecks=bottlenecks, seed=seed, report_path="report.json"
        )
        self.now_s = 0.0
        self.gone: set[int] = set()
        self.handed: list[tuple[float, int, bytes]] = []
        self.switch = Switch(self.config, lambda: self.now_s, self._write)

    def _write(self, dst: int, buffer: bytes) -> bool:
        self.handed.append((self.now_s, dst, buffer))
        return dst not in self.gone

    def send(self, buffer: bytes, src: int = 0) -> Wire:
        self.switch.forward(src, buffer)
        return self

    def at(self, now_s: float) -> Wire:
        """The clock jumps there; only then is what was due handed over."""
        self.now_s = now_s
        self.switch.deliver()
        return self

    def until(self, now_s: float) -> Wire:
        """Everything due by then is handed over in time."""
        while (due_s := self.switch.next_due_s()) <= now_s:
            self.at(max(due_s, self.now_s))
        return self.at(now_s)

    def change(self, links: Mapping[Pair, Link], **rates_bps: float) -> Wire:
        self.switch.change(links, rates_bps)
        return self

    @property
    def times_s(self) -> list[float]:
        """When pieces were handed over."""
        return [now_s for now_s, _, _ in self.handed]

    def row(self, src: str = "a", dst: str = "b") -> LinkReport:
        """The counters of one link."""
        return next(row for row in self.switch.report()["links"] if (row["src"], row["dst"]) == (src, dst))
