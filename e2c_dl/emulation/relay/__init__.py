"""The userspace relay: links between hosts of one machine, on TAP devices."""
