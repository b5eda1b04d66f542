"""A run watched while it trains: its hosts' traces as they grow, and the verdict on its last iterations."""
