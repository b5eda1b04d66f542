"""Whether a report names what was slowed, and nothing else: whole runs of first light, judged against ground truth."""
