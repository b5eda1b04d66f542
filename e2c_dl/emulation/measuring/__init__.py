"""Measurements of links: packet trains, streams and probes, held against what was requested."""
