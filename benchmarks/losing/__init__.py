"""Links that lose segments by design, beside the truth."""
