"""Looking at TCP connections while they are used: those of this process, and those of others on the host."""

from e2c_dl.trace.sockets.others import ProcessSockets
from e2c_dl.trace.sockets.own import OwnSockets
from e2c_dl.trace.sockets.sampler import SocketSampler, Source

__all__ = ["OwnSockets", "ProcessSockets", "SocketSampler", "Source"]
