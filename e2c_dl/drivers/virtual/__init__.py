"""The virtual driver: a scenario under a simulated clock, into the records that a live run leaves.

Steps, for all ranks: inputs -> hosts' folders -> train, with what changes -> hosts' outcomes, whatever ended it.
"""
