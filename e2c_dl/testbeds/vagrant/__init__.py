"""``--on vagrant``: virtual machines of this machine, by EnOSlib's own Vagrant provider, over libvirt and KVM.

::

    planned   machines, their network, the Vagrantfile's settings: values, nothing is started
    machines  brings them up, in a process of its own; what vagrant and libvirt have of a run
    testbed, run   what a campaign drives          cleanup   destroys them, by the run's id in their names

Machines are driven over SSH as any others are (``testbeds.machines``), once they are up.
"""
