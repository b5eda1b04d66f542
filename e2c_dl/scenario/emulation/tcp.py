"""The ``tcp:`` section of ``emulation.yaml``: ``{congestion_control: cubic, slow_start_after_idle: false}``."""

from __future__ import annotations

import re

from e2c_dl.scenario.field import Field, Findings, described
from e2c_dl.scenario.model import Tcp

DEFAULT_TCP = Tcp(congestion_control="cubic", slow_start_after_idle=False)

# As the kernel names its modules; TCP_CA_NAME_MAX is 16 with the closing zero.
_CONGESTION_CONTROL = re.compile(r"[a-z][a-z0-9_]{0,14}")


def read_tcp(section: Field, found: Findings) -> Tcp:
    """The section's values, noting in ``found`` what is wrong."""
    fields = section.keys(found, known=("congestion_control", "slow_start_after_idle"))
    control, idle = fields.get("congestion_control"), fields.get("slow_start_after_idle")
    name = found.attempt(_congestion_control, control) if control else None
    after_idle = found.attempt(idle.boolean) if idle else None
    return Tcp(
        congestion_control=name or DEFAULT_TCP.congestion_control,
        slow_start_after_idle=DEFAULT_TCP.slow_start_after_idle if after_idle is None else after_idle,
    )


def _congestion_control(field: Field) -> str:
    name = field.text()
    if not _CONGESTION_CONTROL.fullmatch(name):
        raise field.error(f"{described(name)} is no name of a congestion control", "write e.g. cubic, reno or bbr")
    return name
