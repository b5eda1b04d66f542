"""How long a probe takes, and whether it names what is slow."""
