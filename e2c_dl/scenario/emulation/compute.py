"""The ``compute:`` section of ``emulation.yaml``: how slow hosts are by design.

::

    compute:
      method: auto                        auto, quota (cgroup) or sleep
      cores: 0.2                          of one core, for a host of factor 1; null: what the machine can give
      factors: {edge.*: 2, cloud.*: 1}    times slower than the reference; of several that match, the last holds
"""

from __future__ import annotations

from collections.abc import Sequence
from types import MappingProxyType

from e2c_dl.scenario.ends import hosts_of
from e2c_dl.scenario.field import Field, Findings
from e2c_dl.scenario.model import ComputeEmulation
from e2c_dl.topology import Host

METHODS = ("auto", "quota", "sleep")
MAX_FACTOR = 1000.0
MAX_CORES = 1024.0
DEFAULT_COMPUTE = ComputeEmulation(method="auto", cores=None, factors=MappingProxyType({}))


def read_compute(section: Field, hosts: Sequence[Host] | None, found: Findings) -> ComputeEmulation:
    """The section's values, noting in ``found`` what is wrong. Without hosts, patterns are not looked at."""
    fields = section.keys(found, known=("method", "cores", "factors"))
    method = found.attempt(fields["method"].one_of, METHODS) if "method" in fields else None
    cores = None
    if "cores" in fields and fields["cores"].value is not None:
        range_ = f"above 0, at most {MAX_CORES:g}, or null"
        cores = found.attempt(fields["cores"].number, lambda n: 0 < n <= MAX_CORES, range_)
    factors: dict[str, float] = {}
    if "factors" in fields:
        for field in (found.attempt(fields["factors"].fields) or {}).values():
            factor = found.attempt(times_slower, field)
            chosen = found.attempt(hosts_of, field.key(), hosts) if hosts is not None else None
            if factor is not None and chosen is not None:
                factors.update({host.name: factor for host in chosen})
    return ComputeEmulation(method=method or "auto", cores=cores, factors=MappingProxyType(factors))


def times_slower(field: Field) -> float:
    """How many times slower than the reference, from 1 on. Raises: ScenarioError."""
    return field.number(lambda factor: 1 <= factor <= MAX_FACTOR, f"from 1 to {MAX_FACTOR:g}")
