"""Dynamics of a run: what is in force at which second of training. Schedules, heat, faults, links, speed; all pure."""
