"""The virtual world against the same model in SimPy, in one run."""
