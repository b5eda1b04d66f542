"""Runs of which reports were silent, or wrong, at commit 5cfbb21, and what they say now."""
