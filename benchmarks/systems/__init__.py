"""Every strategy there is, side by side in the environments of the papers: DLion's, Gaia's, and from 1 to 100 Mbit/s.

::

    table.py          the systems: a strategy with its settings each
    environments.py   who computes how fast, over which links: rendered as a scenario's files
    trial.py          one system in one environment with one seed, simulated with real gradients: a Ran
    campaign.py       which trials there are, those done before, and the rest over processes or a cluster
    tables.py, figures.py    what came of them
    live.py, ddp.py          a small environment for real, and torch DDP's script in it; beside.py: beside virtual
"""
