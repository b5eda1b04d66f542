"""Budgets that ranks on different hosts share: rank 0 keeps the account, and ranks ask for iterations ahead of need.

::

    rank r     |===== iteration 4 =====|===== iteration 5 =====|
                \\ ask for 6         / granted
    account      -------------------

An iteration is asked for when the one before the last begins: no gradient waits for a grant, unless an iteration is
shorter than the way there and back; then more are asked for ahead. When little is left, the account calls back what
nobody has begun, and from there on whoever is free first is granted what is left: a slow rank holds on to nothing.
"""
