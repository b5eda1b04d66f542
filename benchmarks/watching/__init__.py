"""How soon a watched run's verdict names what became slow."""
