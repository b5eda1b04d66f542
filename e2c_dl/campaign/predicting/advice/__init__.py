"""Advice: strategies and settings tried in the virtual world, on one topology and its measured times.

::

    candidates.py   what is tried      trial.py    one run of one candidate
    ground.py       where              workers.py  many of them, in processes or on a cluster
                                       ranking.py  what comes of it, best first
"""
