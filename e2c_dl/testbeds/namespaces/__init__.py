"""Hosts as namespaces of this machine: processes that hold them, hosts brought up, testbed, and clean-up after them."""
