"""Faults drawn by a seed, put into real runs one by one; see README.md.

Ordinary users, machines and docker's daemon are made as the tests make them, so that their helpers are imported here.
"""

import sys
from pathlib import Path

TESTS = Path(__file__).parents[2] / "tests"
if str(TESTS) not in sys.path:
    sys.path.append(str(TESTS))
