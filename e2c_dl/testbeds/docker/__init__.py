"""Hosts as containers of this machine: an image, a run's containers and networks, and what may be left of them.

``testbed`` conforms to ``testbeds.base`` and is named in ``testbeds.catalogue``; everything else here serves it.
"""
