"""Lines that several links share, judged as what they are together."""
