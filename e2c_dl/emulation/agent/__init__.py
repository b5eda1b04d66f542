"""The agent of one host: changes what a scenario changes while training runs, in time."""
