"""Make the network and the processors as a scenario asks, measure what came out, and say where the two differ."""
