"""Tutorials, typed as they stand on a bare Debian: how long each takes, and whether it ends as its page shows."""
