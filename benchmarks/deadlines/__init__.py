"""The adaptive deadline beside the best fixed one that a clairvoyant could choose."""
