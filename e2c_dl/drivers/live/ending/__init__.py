"""The end of a live training: the strategy's model is brought to rank 0, evaluated and saved, while all others wait."""
