"""Trace-driven replay: a run as a graph of moments and of messages queueing for links."""
