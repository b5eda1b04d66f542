"""What happened, when, where: spans with a closed vocabulary, recorded per rank and aligned to one clock."""
