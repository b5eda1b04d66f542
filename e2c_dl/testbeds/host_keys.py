"""Whose host key ssh accepts: one answer for all ways to a host, our own ssh and Ansible's.

::

    unchecked   anybody's: hosts made for this run, and machines that are installed anew all the time
    known       as ssh itself has it: ~/.ssh/known_hosts and /etc/ssh/ssh_known_hosts
    /a/file     those in this file of the same format, and no others

The user's ssh configuration is not read: what an inventory says holds for everybody who has it. EnOSlib and our
settings of Ansible tell it not to look at host keys; variables of the host itself go before that.
"""

from __future__ import annotations

import shlex
from typing import Any

UNCHECKED = "unchecked"
KNOWN = "known"

ALIVE = ("-o", "ServerAliveInterval=10", "-o", "ServerAliveCountMax=6")
"""Options of ssh by which a session ends when its host said nothing for a minute: else it would never."""

_ALWAYS = (
    *ALIVE,
    *("-F", "/dev/null"),  # an inventory means the same for everybody, whatever stands in ~/.ssh/config
    *("-o", "BatchMode=yes"),  # else ssh asks for a password at a terminal where nobody looks, and waits
    *("-o", "IdentitiesOnly=yes"),  # an agent's other keys would use up the tries that sshd allows
    *("-o", "UpdateHostKeys=no"),  # nobody asked for entries in his known_hosts
    *("-o", "LogLevel=ERROR"),  # else it warns of every key it adds, where ``programs`` looks for what went wrong
    *("-o", "ConnectTimeout=10"),  # else the kernel's own, of about two minutes
)
_FAILED, _CHANGED = "Host key verification failed", "IDENTIFICATION HAS CHANGED"
_FILES = "~/.ssh/known_hosts"


def ssh_options(host_keys: str, jump: str | None = None, key: str = "") -> tuple[str, ...]:
    """Options of ssh, scp and sftp. ``jump``: USER@HOST on the way, which is entered with the private ``key``."""
    return (*_accepted(host_keys), *(() if jump is None else ("-o", f"ProxyCommand={_through(jump, key)}")))


def _through(jump: str, key: str) -> str:
    # not ProxyJump: that takes no options for the host on the way; its key is learnt once, as everybody's first login
    options = (*_ALWAYS, "-o", "StrictHostKeyChecking=accept-new", "-i", key)
    return f"{shlex.join(('ssh', *options))} -W [%h]:%p {shlex.quote(jump)}"


def _accepted(host_keys: str) -> tuple[str, ...]:
    if host_keys == UNCHECKED:
        # nothing remembered: local addresses come again in the next run, with other keys
        return (*_ALWAYS, "-o", "StrictHostKeyChecking=no", *_known_from("/dev/null"))
    files = () if host_keys == KNOWN else _known_from(host_keys)
    return (*_ALWAYS, "-o", "StrictHostKeyChecking=yes", *files)


def ansible_variables(host_keys: str, jump: str | None = None, key: str = "") -> dict[str, Any]:
    """Variables of a host by which Ansible goes there as ``ssh_options`` say."""
    return {
        "ansible_host_key_checking": host_keys != UNCHECKED,
        "ansible_ssh_common_args": shlex.join(ssh_options(host_keys, jump, key)),
    }


def refusal(host_keys: str, address: str, port: int, said: str) -> str | None:
    """Why ssh that said ``said`` did not trust the host, and what to do; None if it was not about its key."""
    if _FAILED not in said:
        return None
    file = _FILES if host_keys == KNOWN else host_keys
    entry = address if port == 22 else f"[{address}]:{port}"  # as known_hosts spells it
    if _CHANGED in said:
        return (
            f"its host key is not the one in {file}: another machine may be answering; if it was installed anew, "
            f"`ssh-keygen -R {entry} -f {file}` and add its new key, or write host_keys: unchecked"
        )
    return (
        f"its host key is not in {file}; compare it while logging in once by hand, or add it with "
        f"`ssh-keyscan -p {port} {address} >> {file}`, or write known_hosts: FILE or host_keys: unchecked"
    )


def _known_from(file: str) -> tuple[str, ...]:
    # the global file too: else a key that stands there is accepted as well
    return ("-o", f"UserKnownHostsFile={file}", "-o", "GlobalKnownHostsFile=/dev/null")
