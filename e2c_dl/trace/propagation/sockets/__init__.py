"""Looking at TCP connections while they are used: those of this process, and those of others on the host."""

from e2c_dl.trace.propagation.sockets.others import ProcessSockets
from e2c_dl.trace.propagation.sockets.own import OwnSockets
from e2c_dl.trace.propagation.sockets.sampler import SocketSampler
from e2c_dl.trace.propagation.sockets.source import Source

__all__ = ["OwnSockets", "ProcessSockets", "SocketSampler", "Source"]
