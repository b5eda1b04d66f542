"""Horovod for hosts: a wheel built once for a torch and a Python, kept in a cache, and brought to hosts from there."""
