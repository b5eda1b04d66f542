"""``--on static``: machines that are there and answer over SSH, listed in an inventory file.

::

    inventory.yaml -> Inventory -- matched with the scenario's hosts --> probed side by side -> Access, Backend
                                                                         begun: run_dir, claim on the data device
                                                                         shaped: tc on the data device
                                                                         ended: all of it gone again

``inventory`` reads the file and says who is who, ``host_side`` is the program that hosts are asked with,
``facts`` asks them and judges what they answer, ``testbed`` and ``run`` are what a campaign drives, ``cleanup`` ends a
run of which only the registry is left. Hosts are other people's too: nothing of their settings is changed but
the queueing of the data device, and that is put back.
"""
