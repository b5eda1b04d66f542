"""CPU quotas of hosts: a cgroup for each, version 1 or 2, whichever has the controller.

::

    |<- period 5 ms ->|             quota = cores x period: in every period the host's processes run for that long
    |run|   throttled |run|         in sum, then they are stopped until the next begins

The kernel refuses quotas below 1 ms; a host of less than 0.2 cores gets a longer period instead, which is said.
"""

from __future__ import annotations

import os
from dataclasses import dataclass
from pathlib import Path

from e2c_dl.errors import TestbedError

PERIOD_US = 5_000  # the kernel's own 100 ms would stop a worker for tens of ms at a time, as no slow processor does
_LEAST_QUOTA_US = 1_000  # the kernel's least
_LONGEST_PERIOD_US = 1_000_000  # the kernel's greatest


@dataclass(frozen=True, kw_only=True)
class Quota:
    """``quota_us`` of CPU time in each ``period_us``."""

    quota_us: int
    period_us: int

    @classmethod
    def of(cls, cores: float) -> Quota:
        """The quota for ``cores`` (0.5: half a core). Raises: TestbedError if it is less than the kernel can give."""
        period_us = PERIOD_US
        if cores * period_us < _LEAST_QUOTA_US:
            period_us = round(_LEAST_QUOTA_US / cores) if cores > 0 else _LONGEST_PERIOD_US + 1
        if period_us > _LONGEST_PERIOD_US:
            raise TestbedError(f"{cores} cores: the kernel gives no less than 0.001 of one; ask for more, or use sleep")
        return cls(quota_us=round(cores * period_us), period_us=period_us)

    def limitations(self, host: str, cores: float) -> tuple[str, ...]:
        """What is said of ``host`` if its period is longer than others'."""
        if self.period_us == PERIOD_US:
            return ()
        ms = f"{self.period_us / 1000:g} ms instead of {PERIOD_US // 1000}"
        return (f"host {host}: {cores:g} cores need a period of {ms}",)


@dataclass(frozen=True, kw_only=True)
class Controller:
    """The cgroup hierarchy that limits CPU time on this machine."""

    version: int  # 1 or 2
    root: Path

    def group(self, run_id: str, host: str | None = None) -> Path:
        """The directory of a run's cgroups, or of one host's."""
        run = self.root / f"e2cdl-{run_id}"
        return run if host is None else run / host


def controller(mountinfo: Path = Path("/proc/self/mountinfo")) -> Controller | None:
    """The hierarchy that has the cpu controller; None if there is none."""
    for line in mountinfo.read_text(encoding="utf-8").splitlines():
        mount, _, filesystem = line.partition(" - ")
        where = Path(mount.split()[4])
        kind, _source, options = filesystem.split(" ", 2)
        if kind == "cgroup" and "cpu" in options.split(","):  # a word of its own: cpuset and cpuacct are others
            return Controller(version=1, root=where)
        if kind == "cgroup2" and "cpu" in _words(where / "cgroup.controllers"):
            return Controller(version=2, root=where)
    return None


def can_limit() -> bool:
    """Whether this process may make cgroups that limit CPU time."""
    hierarchy = controller()
    return hierarchy is not None and os.access(hierarchy.root, os.W_OK)


def make_group(run_id: str, host: str, cores: float, pid: int) -> tuple[str, ...]:
    """Give ``host`` of the run ``cores``, and move ``pid`` (whose later children stay with it) there.

    Returns limitations. Raises: TestbedError if the quota cannot be set, or reads back differently.
    """
    try:
        group = _make(run_id, host)
        limitations = set_cores(run_id, host, cores)
        _write(group / "cgroup.procs", str(pid))  # moved in only now: not a moment without its limit
    except OSError as error:
        raise _refused(host, error) from error
    return limitations


def set_cores(run_id: str, host: str, cores: float) -> tuple[str, ...]:
    """Change what ``host`` gets, at once; limitations. Raises: TestbedError as ``make_group``."""
    hierarchy, quota = _required(host), Quota.of(cores)
    group = hierarchy.group(run_id, host)
    try:
        if hierarchy.version == 2:
            _write(group / "cpu.max", f"{quota.quota_us} {quota.period_us}")
        else:  # without a quota first: old quota and new period together may ask for more than is allowed
            _write(group / "cpu.cfs_quota_us", "-1")
            _write(group / "cpu.cfs_period_us", str(quota.period_us))
            _write(group / "cpu.cfs_quota_us", str(quota.quota_us))
        in_force = read_quota(run_id, host)
    except OSError as error:
        raise _refused(host, error) from error
    if in_force != quota:  # read back: a kernel may round, or a parent allow less
        raise TestbedError(f"host {host}: asked for {quota}, {group} says {in_force}; emulate compute by sleep instead")
    return quota.limitations(host, cores)


def read_quota(run_id: str, host: str) -> Quota | None:
    """What is in force for ``host``; None if it is not limited."""
    hierarchy = _required(host)
    group = hierarchy.group(run_id, host)
    if hierarchy.version == 2:
        quota, period = _words(group / "cpu.max")
    else:
        (quota,), (period,) = _words(group / "cpu.cfs_quota_us"), _words(group / "cpu.cfs_period_us")
    return None if quota in ("max", "-1") else Quota(quota_us=int(quota), period_us=int(period))


def try_quota(name: str) -> str | None:
    """Why no quota can be set on this machine; None if it can. A cgroup of a run ``name`` is made and removed."""
    host = "quota"
    group = _required(host).group(name, host)
    try:
        _make(name, host)
        set_cores(name, host, 0.5)
    except OSError as error:
        return error.strerror or str(error)
    except TestbedError as error:
        return str(error)
    finally:
        for made in (group, group.parent):
            if made.is_dir():
                made.rmdir()
    return None


def _make(run_id: str, host: str) -> Path:
    """The cgroup, made if it is not there. Raises: OSError."""
    hierarchy = _required(host)
    group = hierarchy.group(run_id, host)
    for directory in (group.parent, group):
        if hierarchy.version == 2:
            _write(directory.parent / "cgroup.subtree_control", "+cpu")  # a child has what its parent passes on
        directory.mkdir(exist_ok=True)
    return group


def _required(host: str) -> Controller:
    hierarchy = controller()
    if hierarchy is None:
        raise TestbedError(f"host {host}: this machine has no cgroup cpu controller; emulate compute by sleep instead")
    return hierarchy


def _refused(host: str, error: OSError) -> TestbedError:
    return TestbedError(f"host {host}: CPU quota refused: {error}; emulate compute by sleep instead")


def _write(file: Path, value: str) -> None:
    file.write_text(value, encoding="ascii")


def _words(file: Path) -> list[str]:
    return file.read_text(encoding="ascii").split()
