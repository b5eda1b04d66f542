"""Links that lose segments by design: how far luck alone takes them, who is further off, and of which kind that is."""
