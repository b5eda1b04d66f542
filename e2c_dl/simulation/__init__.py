"""A scenario run in the virtual world, from its folder to a sealed archive; ``run.STEPS`` is the list of steps."""
