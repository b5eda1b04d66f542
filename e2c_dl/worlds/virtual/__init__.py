"""The virtual world: every rank in one process, under a virtual clock and a model of links and hosts.

::

    strategy -> VirtualWorker -> Wire (one per directed link) -> Mailbox of the receiver
                    |              rate, delay, jitter, loss, schedule, outages, shared bottlenecks
                Pace: a host's stored profile          Kernel: virtual time, and who runs next

No sockets, no clocks, no threads, no torch: the same input gives the same trace, on any machine.
"""

from e2c_dl.worlds.virtual.links import Bottleneck, LinkModel, link_models
from e2c_dl.worlds.virtual.profile import ComputeProfile, GradientTimes, HostModel
from e2c_dl.worlds.virtual.simulate import Result, simulate
from e2c_dl.worlds.virtual.spans import InFiles, InMemory
from e2c_dl.worlds.virtual.worker import Progress, VirtualWorker

__all__ = [
    "Bottleneck", "ComputeProfile", "GradientTimes", "HostModel", "InFiles", "InMemory", "LinkModel", "Progress",
    "Result", "VirtualWorker", "link_models", "simulate",
]  # fmt: skip
