"""The two drivers of the worlds: live, on each host; virtual, of all hosts in one process. Both leave the same records.

::

    step          live (this host)                         virtual (all hosts)
    prepare       members, key, clocks, measuring          inputs: a model of every host and link
    train         train.train, in process                  train.SimulatedRun
    change        changes.HostChanges, with an agent       changes.RunChanges
    record        outcome, facts, metrics                  hosts

What changes goes through :mod:`e2c_dl.dynamics` in both; a strategy sees a Worker of its world, and no driver.
"""
