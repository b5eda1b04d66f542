"""Spans on disk while they happen: frames, the log, and who follows it."""
