"""The relay against plain veth and against what was asked of it, in one run."""
