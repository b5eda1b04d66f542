"""Processes beside training: the agent, and whatever else it cannot go on without."""
