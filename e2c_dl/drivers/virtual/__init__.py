"""The driver of the virtual world: a scenario under a simulated clock, into the records that a live run leaves."""
