"""Commands that analyse archives."""
