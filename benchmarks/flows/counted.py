"""Both counts of each link, brought together."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

from e2c_dl.emulation.relay.report import RelayReport
from e2c_dl.emulation.relay.switch import LinkReport
from e2c_dl.trace.store import read_trace


@dataclass(frozen=True, kw_only=True)
class Counted:
    """One directed link of one run; bytes of Ethernet frames, headers and acknowledgements included."""

    side: str
    src: str
    dst: str
    is_data: bool
    told_bytes: float  # by the sockets of the host that sends
    carried_bytes: float  # by the relay; with what it dropped, which had left the host
    retransmissions: float

    @property
    def error(self) -> float:
        """Of what the sockets told."""
        return self.told_bytes / self.carried_bytes - 1


def counted(side: str, folder: Path, report: RelayReport) -> list[Counted]:
    """A row per link on which a socket was seen, and the relay carried anything."""
    trace = read_trace(folder)
    carried = {(link["src"], link["dst"]): _left_bytes(link) for link in report["links"] if link["segments"]}
    found = []
    for link in trace.connections.links:
        src, dst = trace.hosts[link.src], trace.hosts[link.dst]
        found.append(
            Counted(
                side=side, src=src, dst=dst, is_data=link.is_data, told_bytes=link.since_birth["wire_bytes"],
                carried_bytes=carried[src, dst], retransmissions=link.since_birth["retransmissions"],
            )
        )  # fmt: skip
    return found


def _left_bytes(link: LinkReport) -> float:
    """Bytes of what was carried and dropped; of the latter only the number is known, so that it counts by the mean."""
    dropped = link["dropped_queue"] + link["dropped_loss"] + link["dropped_down"] + link["dropped_bottleneck"]
    return link["bytes"] * (1 + dropped / link["segments"])
