"""A scenario's folder: its own files and code, copies of it, its secrets."""
