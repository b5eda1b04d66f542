"""The self-contained page of a run, section by section, and the figures on it."""
