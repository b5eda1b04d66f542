"""A run from beginning to end: check, deploy, emulate, train, collect, verify, report; ``steps.STEPS`` is the list."""
