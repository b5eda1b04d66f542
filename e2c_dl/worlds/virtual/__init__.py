"""The virtual world: every rank in one process, under a virtual clock and a model of links and hosts.

::

    strategy -> VirtualWorker -> Wire (one per directed link) -> Mailbox of the receiver
                    |              rate, delay, jitter, loss, down, each as it is by then; shared bottlenecks
                HostPace: a host's stored profile, its pauses      Kernel: virtual time, and who runs next

No sockets, no clocks, no threads, no torch: the same input gives the same trace, on any machine.
"""

from e2c_dl.worlds.virtual.judging import Judging
from e2c_dl.worlds.virtual.links import LinkModel, SharedRate, bottlenecks, link_model, link_models
from e2c_dl.worlds.virtual.profile import ComputeProfile, GradientTimes, HostModel
from e2c_dl.worlds.virtual.setting import Onset, SimulatedIteration
from e2c_dl.worlds.virtual.simulate import Result, simulate
from e2c_dl.worlds.virtual.sinks import InFiles, InMemory, Sink
from e2c_dl.worlds.virtual.worker import VirtualWorker

__all__ = [
    "ComputeProfile", "GradientTimes", "HostModel", "InFiles", "InMemory", "Judging", "LinkModel", "Onset",
    "Result", "SharedRate", "SimulatedIteration", "Sink", "VirtualWorker", "bottlenecks", "link_model",
    "link_models", "simulate",
]  # fmt: skip
