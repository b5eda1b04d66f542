"""What a testbed offers to a campaign: hosts one can reach, brought up and released under one run's id."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, kw_only=True)
class Access:
    """How to reach one host, and how training reaches it from the others."""

    name: str  # the scenario's name of it: edge-1
    address: str  # management: SSH and Ansible; never shaped
    data_address: str  # training talks here; shaped
    data_device: str  # eth1
    user: str
    keyfile: str  # private key, mode 0600
    port: int
    python: str  # interpreter on the host that has e2c_dl
    run_dir: str  # on the host: where its worker writes; starts empty
    netns_pid: int | None = None  # local testbeds: pid 1 of the host's namespaces, seen from here
