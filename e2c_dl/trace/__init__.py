"""Traces: what happened, when and where; spans with a closed vocabulary, recorded per rank, aligned to one clock."""
