"""Clocks of hosts, and how each is aligned to the reference host's."""
