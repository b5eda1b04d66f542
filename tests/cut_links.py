"""Cuts of a link between two ranks, as both worlds are tried with them: how long, and what becomes of the ranks.

Lengths are shares of the time after which a rank without a sign of life is given up.
"""

from __future__ import annotations

KEPT, LOST = 0.6, 1.6
SHARES = {"a cut that is short enough": KEPT, "a cut that is too long": LOST}
SENDING = {"while sending": True, "while waiting": False}
