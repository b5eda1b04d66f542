"""The relay against plain veth and against what was requested of it, in one run."""
