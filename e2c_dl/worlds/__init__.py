"""Where a strategy runs: live over sockets, one rank per process."""
