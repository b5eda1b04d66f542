"""YAML files as documents whose keys know their lines."""
