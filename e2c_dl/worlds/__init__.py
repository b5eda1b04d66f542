"""Worlds that a strategy runs in: live, one rank per process, over sockets; virtual, all ranks by a simulated clock."""
