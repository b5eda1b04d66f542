"""Predictions of runs that were not made: what a change would bring, and which strategy would do best."""
