"""Ways into a host that is up: over ssh, as Ansible goes, or straight into its namespaces. Both only make an argv.

Hosts of an ordinary user are reached from the run's own network: from outside of it, ssh goes in there first. Whoever
enters namespaces from outside has no capabilities in them, so from outside all ways are over ssh: its sessions have.
"""

from __future__ import annotations

import shlex
from collections.abc import Sequence

from e2c_dl.errors import TestbedError
from e2c_dl.testbeds.base import Access
from e2c_dl.testbeds.host_keys import ssh_options
from e2c_dl.testbeds.this_machine import rootless


def ssh_argv(access: Access, *argv: str) -> list[str]:
    """Command line that runs ``argv`` on the host, arguments kept apart; without ``argv``, an interactive shell."""
    way_in = rootless.way_in(access.through_pid)
    ssh = ["ssh", *ssh_options(access.host_keys), "-i", access.keyfile, "-p", str(access.port)]
    target = [*way_in, *ssh, f"{access.user}@{access.address}"]
    return [*target, "--", shlex.join(argv)] if argv else target


def enter(access: Access, argv: Sequence[str]) -> list[str]:
    """Command line that runs ``argv`` in all of the host's namespaces, as the host's user, without ssh.

    It ends with the host. It does not run under the host's CPU quota, which is inherited from sshd.
    Raises: TestbedError if the host is not of this machine.
    """
    if _from_outside(access):
        return ssh_argv(access, *argv)
    return ["nsenter", *_target(access), "--mount", "--uts", "--ipc", "--net", "--pid", "--", *argv]


def enter_network(access: Access, argv: Sequence[str]) -> list[str]:
    """As ``enter``, but only into its network: files, processes and programs are this machine's own."""
    if _from_outside(access):
        return ssh_argv(access, *argv)
    return ["nsenter", *_target(access), "--net", "--", *argv]


def _from_outside(access: Access) -> bool:
    return access.through_pid is not None and rootless.outside(access.through_pid)


def _target(access: Access) -> tuple[str, str]:
    if access.netns_pid is None:
        raise TestbedError(f"host {access.name}: it has no namespaces on this machine to enter; go over ssh")
    return "--target", str(access.netns_pid)
