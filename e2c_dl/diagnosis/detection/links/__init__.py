"""Links: each beside its design, of which part it departs, by what TCP, clocks and sockets tell."""
