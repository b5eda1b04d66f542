"""The measured world: a run simulated again with the times that its trace shows, as it was or with something changed.

::

    trace --> MeasuredHost (per gradient, step, evaluation)  --.
          --> MeasuredLink (rate over time, delay)           --+--> MeasuredWorld --what-if--> run time
    scenario: strategy, settings, batches, seed, stop rule   --'

A replay keeps the order in which things happened; here the strategy decides it anew. So this is what answers what-ifs
of asynchronous strategies, and of runs without one of their hosts.
"""
