"""Time to the first summary of a large archive, and its size on disk."""
