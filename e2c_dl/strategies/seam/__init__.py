"""Seam between strategies and worlds: messages, the verbs of a Worker, the mathematics of a rank.

Strategies import it from :mod:`e2c_dl.strategies.base`.
"""
