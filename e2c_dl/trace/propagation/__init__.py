"""Propagation per link as the ranks' own sockets counted it: samples, connections, flows."""
