"""Links shown, measured and changed: of a run that is up, of machines of an inventory, and in an archive."""
