"""``emulation.yaml``, which plain E2Clab ignores: compute by design, TCP, and departures injected on purpose.

::

    compute:                              by design: what diagnosis holds a run against
      method: auto                        auto, quota (cgroup) or sleep
      cores: 0.2                          of one core, for a host of factor 1; null: what the machine can give
      factors: {edge.*: 2, cloud.*: 1}    times slower than the reference; of several that match, the last holds
    injected: ...                         see :mod:`e2c_dl.scenario.injection`
    tcp: {congestion_control: cubic, slow_start_after_idle: false}

The file may be missing: then no host is slowed, nothing is injected, and TCP is cubic.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from types import MappingProxyType

from e2c_dl.scenario.document import Document
from e2c_dl.scenario.field import Field, Findings, described
from e2c_dl.scenario.model import ComputeEmulation, Tcp
from e2c_dl.scenario.patterns import select
from e2c_dl.topology import Host

METHODS = ("auto", "quota", "sleep")
MAX_FACTOR = 1000.0
DEFAULT_COMPUTE = ComputeEmulation(method="auto", cores=None, factors=MappingProxyType({}))
DEFAULT_TCP = Tcp(congestion_control="cubic", slow_start_after_idle=False)

# As the kernel names its modules; TCP_CA_NAME_MAX is 16 with the closing zero.
_CONGESTION_CONTROL = re.compile(r"[a-z][a-z0-9_]{0,14}")


def check_sections(document: Document, found: Findings) -> dict[str, Field]:
    """The sections of ``emulation.yaml`` by name, noting in ``found`` unknown ones."""
    top = Field(document=document, value=document.value)
    return top.keys(found, known=("compute", "injected", "tcp"))


def read_compute(section: Field, hosts: Sequence[Host] | None, found: Findings) -> ComputeEmulation:
    """The ``compute:`` section, noting in ``found`` what is wrong. Without hosts, patterns are not looked at."""
    fields = section.keys(found, known=("method", "cores", "factors"))
    method = found.attempt(fields["method"].one_of, METHODS) if "method" in fields else None
    cores = None
    if "cores" in fields and fields["cores"].value is not None:
        cores = found.attempt(fields["cores"].number, lambda n: 0 < n <= 1024, "above 0, at most 1024, or null")
    factors: dict[str, float] = {}
    if "factors" in fields:
        for pattern, field in (found.attempt(fields["factors"].fields) or {}).items():
            factor = found.attempt(field.number, lambda f: 1 <= f <= MAX_FACTOR, f"from 1 to {MAX_FACTOR:g}")
            chosen = found.attempt(select, _key(field, pattern), hosts) if hosts is not None else None
            if factor is not None and chosen is not None:
                factors.update({host.name: factor for host in chosen})
    return ComputeEmulation(method=method or "auto", cores=cores, factors=MappingProxyType(factors))


def read_tcp(section: Field, found: Findings) -> Tcp:
    """The ``tcp:`` section, noting in ``found`` what is wrong."""
    fields = section.keys(found, known=("congestion_control", "slow_start_after_idle"))
    control, idle = fields.get("congestion_control"), fields.get("slow_start_after_idle")
    name = found.attempt(_congestion_control, control) if control else None
    after_idle = found.attempt(idle.boolean) if idle else None
    return Tcp(
        congestion_control=name or DEFAULT_TCP.congestion_control,
        slow_start_after_idle=DEFAULT_TCP.slow_start_after_idle if after_idle is None else after_idle,
    )


def _key(field: Field, key: str) -> Field:
    """The key of ``field``, as a value to ask: a pattern stands there."""
    return Field(document=field.document, path=field.path, value=key)


def _congestion_control(field: Field) -> str:
    name = field.text()
    if not _CONGESTION_CONTROL.fullmatch(name):
        raise field.error(f"{described(name)} is no name of a congestion control", "write e.g. cubic, reno or bbr")
    return name
