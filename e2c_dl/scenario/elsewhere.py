"""Environments of E2Clab other than Grid'5000: the keys of their sections, and what of this project applies there.

Nobody has run this project there. What is said follows from E2Clab's providers and from what the machines are.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass

from e2c_dl.scenario.documents.field import Field
from e2c_dl.scenario.documents.keys import one_of

Checks = Mapping[str, Callable[[Field], object]]
"""What to ask of the value at each key that may be there; each raises ScenarioError."""


@dataclass(frozen=True, kw_only=True)
class Elsewhere:
    """An environment: what its section may hold beside ``job_name`` and ``walltime``, and what applies."""

    keys: Checks
    applies: str  # a clause: what training, emulation and tracing can do there


def _ports(field: Field) -> None:
    """Entries ``[public, private, role]``, with tcp, udp or both behind. Raises: ScenarioError."""
    for entry in field.items():
        parts = entry.items()
        if not 3 <= len(parts) <= 4:
            raise entry.error(f"{len(parts)} parts of a port", "write [public port, private port, role, tcp]")
        for number in parts[:2]:
            number.integer(1, 65535)


_CHAMELEON: Checks = dict.fromkeys(("rc_file", "key_name", "image", "cluster"), Field.text)

ELSEWHERE: Mapping[str, Elsewhere] = {
    "iotlab": Elsewhere(
        keys={"cluster": Field.text},
        applies="its boards have no PyTorch, so that no service that trains runs on them: use them for services of "
        "your own, beside Grid'5000's hosts that train",
    ),
    "chameleoncloud": Elsewhere(
        keys=_CHAMELEON,
        applies="training, measuring and tracing are as on Grid'5000; its users are no root, so that links stay as "
        "E2Clab applies them, and the archive says so",
    ),
    "chameleonedge": Elsewhere(
        keys=_CHAMELEON,
        applies="its devices are containers that Ansible does not reach, so that no service that trains runs on them: "
        "use them for services of your own",
    ),
    "scalewayinstances": Elsewhere(
        keys={
            **dict.fromkeys(
                ("profile", "config_file", "region", "zone", "gateway_type", "image", "commercial_type"), Field.text
            ),
            "ipv6": Field.boolean,
            "architecture": one_of(("standalone", "private_network")).read,
            "ports_to_open": _ports,
        },
        applies="hosts are virtual machines that share theirs with others: links and speeds vary by themselves, and "
        "are judged against what was measured before training",
    ),
}
"""By the key in ``environment:``."""


def remark(field: Field, name: str) -> str:
    """What to say of the section ``field`` of the environment ``name``."""
    here = "--on local, docker and static run it on their own hosts"
    problem = f"e2c-dl deploy does not reserve there ({ELSEWHERE[name].applies})"
    return str(field.error(problem, f"e2clab deploy does; {here}"))
