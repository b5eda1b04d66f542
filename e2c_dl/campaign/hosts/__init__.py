"""Hosts of a run, from when they are up: watched while they work, and what they left gathered."""
