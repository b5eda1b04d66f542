"""Hosts as namespaces of this machine.

``testbed`` brings them up, ``access`` reaches them, ``cleanup`` removes what a run left, ``preflight`` says beforehand
what would go wrong, ``rootless`` lets an ordinary user do all this. The others are their parts: addresses, cables,
files, holder, cpu, tcp, processes, commands.
"""
