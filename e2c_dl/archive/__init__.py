"""One run's directory: everything needed to believe, read and replay it."""
