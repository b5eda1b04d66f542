"""Hosts that share this machine, whatever makes them: addresses, CPU quota, files, processes, probes."""
