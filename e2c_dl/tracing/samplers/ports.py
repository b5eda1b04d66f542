"""What the ports of a traced rank's host count while its script trains: ``ports`` of facts.json.

Sockets tell what TCP carried; ports tell what went past it (RDMA), though not to whom. Each look takes a millisecond:
see :mod:`e2c_dl.trace.propagation.ports`.
"""

from __future__ import annotations

import time
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from e2c_dl.trace.propagation.ports import PortTally
from e2c_dl.tracing.samplers.counters import Counters


class Ports(Counters):
    """``root``: below which /proc and /sys are."""

    def __init__(self, root: Path = Path("/")) -> None:
        super().__init__("what its ports count")
        self._tally = PortTally(time.monotonic_ns, root)

    def begin(self) -> bool:
        self._tally.look()
        return True

    def facts(self) -> Mapping[str, Any]:
        return {"ports": self._tally.look()}
