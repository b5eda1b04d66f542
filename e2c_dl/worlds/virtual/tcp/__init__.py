"""TCP over virtual links: connections segment by segment, and the bottlenecks that they share.

::

    TcpWire: messages --> Connection --trains--> own queue --> SharedQueue of a bottleneck --> Reassembly
                          Window: how much       LossModel     Fifo, Fair
                          RoundTrips: how long   Reduction: what recovery sends
"""
