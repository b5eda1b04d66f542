"""``--on g5k``: nodes of Grid'5000, reserved through E2Clab's own provider, then driven as machines over SSH.

::

    account   ~/.python-grid5000.yaml, keys       asked    what a scenario would reserve: nodes x hours, OAR's words
    api       the client, every call limited      watch    whether the jobs still run
    testbed, run   what a campaign drives         energy   what wattmetres measured of the nodes
    cleanup   gives jobs back, by their name      node     what a node's name says

E2Clab's own provider is driven by ``testbeds.e2clab.reservation``.

A run's jobs carry its id in their name, which is on record before they are asked for: whatever kills a run, `destroy`
finds them by it.
"""
