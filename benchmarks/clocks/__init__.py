"""Clocks whose error is known, aligned over real sockets while all cores are busy: how far off, and what is claimed."""
