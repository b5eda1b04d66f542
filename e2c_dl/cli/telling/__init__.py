"""What commands tell while they work: consoles, transcripts, streams that may break."""
