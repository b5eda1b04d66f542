"""Orders of events of Hop and Prague: all of a few ranks, and many at random."""
