"""Comparison of runs: how much two ways of training differ, how sure that is, and where the time went instead."""
