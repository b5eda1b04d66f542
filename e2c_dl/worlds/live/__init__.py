"""The live world: one rank per process, messages over TCP, time as it passes.

::

    strategy -> LiveWorker -> Network -> Outgoing (one TCP connection per directed link) ~~~> Incoming -> Mailboxes
                    |                                                                                        |
                 compute thread                                                        receive(kind, src, ...)

Everything but the compute thread runs in one asyncio loop, so that messages leave while the gradient is still computed.
"""

from e2c_dl.worlds.live.network import Address, Network
from e2c_dl.worlds.live.share import OwnShare, Share
from e2c_dl.worlds.live.sockets import SocketOptions
from e2c_dl.worlds.live.worker import IterationDone, LiveWorker

__all__ = ["Address", "IterationDone", "LiveWorker", "Network", "OwnShare", "Share", "SocketOptions"]
