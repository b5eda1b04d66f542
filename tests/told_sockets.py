"""Made-up connections.bin: what the sockets of one rank told, and counters of one."""

from __future__ import annotations

import struct
from collections.abc import Iterable
from pathlib import Path

from e2c_dl.trace.propagation import tcp_info
from e2c_dl.trace.propagation.samples import (
    CONNECTION_KIND,
    RECORD_BYTES,
    SAMPLE_KIND,
    Connection,
    described,
    header,
    packed,
)
from e2c_dl.trace.recording.log import Log

IPV4 = 2


def write_told(
    path: Path, rank: int, host: str, connections: Iterable[Connection], told: Iterable[tuple[int, int, int, bytes]]
) -> None:
    """``told``: (time_ns, cookie, iteration, TCP_INFO) of each sample."""
    with Log(path, header(rank, host), flush_every_s=60, record_bytes=RECORD_BYTES) as log:
        for each in connections:
            log.append(CONNECTION_KIND, described(each))
        for at_ns, cookie, iteration, raw in told:
            log.append(SAMPLE_KIND, packed(at_ns, cookie, iteration, IPV4, raw))


def counted(**counts: int) -> bytes:
    """A TCP_INFO with ``counts`` of segments in its fields of 32 bits, and nothing else."""
    made = bytearray(tcp_info.LENGTH)
    for name, count in counts.items():
        struct.pack_into("=I", made, tcp_info.FIELDS[name][0], count)
    return bytes(made)
