"""The same scenarios live on namespaces and in the virtual world: how far their iteration times agree."""
