"""The ``compute:`` and ``tcp:`` sections of ``emulation.yaml``: how slow hosts are by design, and how they speak TCP.

::

    compute:
      method: auto                        auto, quota (cgroup) or sleep
      cores: 0.2                          of one core, for a host of factor 1; null: what the machine can give
      factors: {edge.*: 2, cloud.*: 1}    times slower than the reference; of several that match, the last holds
    tcp: {congestion_control: cubic, slow_start_after_idle: false}
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from types import MappingProxyType

from e2c_dl.scenario.documents.field import Field, Findings
from e2c_dl.scenario.documents.keys import BOOLEAN, Key, Keys, Kind, matching, number, one_of
from e2c_dl.scenario.documents.patterns import hosts_of
from e2c_dl.scenario.model import ComputeEmulation, Tcp
from e2c_dl.topology import Host

MAX_FACTOR = 1000.0
MAX_CORES = 1024.0
DEFAULT_COMPUTE = ComputeEmulation(method="auto", cores=None, factors=MappingProxyType({}))
DEFAULT_TCP = Tcp(congestion_control="cubic", slow_start_after_idle=False)

FACTOR = number(1, MAX_FACTOR)
CORES = number(0, MAX_CORES, above=True)


def _cores_or_null(field: Field) -> float | None:
    range_ = f"above 0, at most {MAX_CORES:g}, or null"  # that of CORES names no null
    return None if field.value is None else field.number(lambda n: 0 < n <= MAX_CORES, range_)


COMPUTE = Keys(
    method=Key(
        one_of(("auto", "quota", "sleep")),
        "quota: share of CPU time; sleep: computes, then waits; auto: quota where the machine can.",
        default=DEFAULT_COMPUTE.method,
    ),
    cores=Key(
        Kind(read=_cores_or_null, schema={**CORES.schema, "type": ["number", "null"]}),
        "What a host of factor 1 gets, in cores; null: as much as the machine can give to all.",
        default=None,
    ),
    factors=Key(
        Kind(read=Field.fields, schema={"type": "object", "additionalProperties": FACTOR.schema}),
        "Host or pattern: times slower than the reference; the last that matches holds.",
    ),
)
TCP = Keys(
    congestion_control=Key(
        # As the kernel names its modules; TCP_CA_NAME_MAX is 16 with the closing zero.
        matching("[a-z][a-z0-9_]{0,14}", "name of a congestion control", "write e.g. cubic, reno or bbr"),
        "Any that the kernel has: cubic, reno, bbr.",
        default=DEFAULT_TCP.congestion_control,
    ),
    slow_start_after_idle=Key(BOOLEAN, "Whether a connection that paused begins slowly again.", default=False),
)


def read_compute(section: Field, hosts: Sequence[Host] | None, found: Findings) -> ComputeEmulation:
    """The section's values, noting in ``found`` what is wrong. Without hosts, patterns are not looked at."""
    said = COMPUTE.gather(section, found)
    factors: dict[str, float] = {}
    for field in said.pop("factors", {}).values():
        factor = found.attempt(FACTOR.read, field)
        chosen = found.attempt(hosts_of, field.key(), hosts) if hosts is not None else None
        if factor is not None and chosen is not None:
            factors.update({host.name: factor for host in chosen})  # in order of the file: the last holds
    return replace(DEFAULT_COMPUTE, **said, factors=MappingProxyType(factors))


def read_tcp(section: Field, found: Findings) -> Tcp:
    """The section's values, noting in ``found`` what is wrong."""
    return replace(DEFAULT_TCP, **TCP.gather(section, found))
