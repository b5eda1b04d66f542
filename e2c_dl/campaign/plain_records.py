"""What plain `e2clab deploy` left on record: when it ran, as which jobs, on which hosts, and what was emulated there.

E2Clab writes none of this for others to read. Times come from the folder's name and its workers, jobs from the lines
that EnOSlib logs while it waits for them, all else from what each worker says of its host.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import datetime, timezone
from pathlib import Path
from types import MappingProxyType
from typing import Any

from e2c_dl.archive.read import ReadArchive
from e2c_dl.archive.records import Deployed, HostFacts
from e2c_dl.emulation import tc
from e2c_dl.emulation.backend import Backend
from e2c_dl.scenario.model import LINK_FAULTS, FaultKind, Injected, Scenario
from e2c_dl.testbeds import described
from e2c_dl.testbeds.machines.run import compute_plan

LOG, ERRORS = "e2clab.log", "e2clab.err"
_LONGEST = 300  # characters of an error's line
BY_E2CLAB = "e2clab"
"""In place of a back end of this program's: links are as E2Clab left them."""

AS_APPLIED = (
    "network as E2Clab applied it: its rules overwrite each other, so believe the measured links, not the requests"
)
_NAMED = "%Y%m%d-%H%M%S"  # E2Clab names its folder so, in local time
_LOGGED = re.compile(r"^(\d{4}-\d\d-\d\d \d\d:\d\d:\d\d),\d+ - ", re.MULTILINE)
_JOB = re.compile(r"\bJob (?P<id>\d+) on (?P<site>\w+): |\bReloading (?P<old>\d+) from (?P<at>\w+)")


def started(output_dir: Path) -> str:
    """When the run began, ISO 8601 with an offset: by its folder, else by what the log says first."""
    try:
        return _written(datetime.strptime(run_folder(output_dir).name, _NAMED).astimezone())
    except ValueError:  # it was renamed
        logged = _logged(output_dir)
    return _written(logged[0] if logged else datetime.fromtimestamp(output_dir.stat().st_mtime, timezone.utc))


def ended(output_dir: Path, outcomes_s: Iterable[float]) -> str:
    """When the last of its workers did; else what the log says last, else when it began."""
    last_s = max(outcomes_s, default=None)
    if last_s is not None:
        return _written(datetime.fromtimestamp(last_s, timezone.utc))
    logged = _logged(output_dir)
    return _written(logged[-1]) if logged else started(output_dir)


def jobs(output_dir: Path) -> tuple[dict[str, str], ...]:
    """Site and OAR id of the jobs that its hosts were reserved by; empty where no job was."""
    found = dict.fromkeys(
        (match["site"] or match["at"], match["id"] or match["old"]) for match in _JOB.finditer(_log(output_dir))
    )
    return tuple({"site": site, "oar_job_id": job} for site, job in found)


def errors(output_dir: Path) -> list[str]:
    """What its e2clab.err says last: E2Clab exits with 0 in any case; nothing where it is empty, as it should be."""
    file = run_folder(output_dir) / ERRORS
    lines = file.read_text(encoding="utf-8", errors="replace").splitlines() if file.is_file() else []
    said = [line.strip() for line in lines if line.strip()]
    return [f"{ERRORS}: {said[-1][:_LONGEST]}"] if said else []


def app_conf(output_dir: Path) -> str | None:
    """The configuration of `--app_conf` that ``output_dir`` is of; None: the run had none."""
    return None if run_folder(output_dir) == output_dir else output_dir.name


def run_folder(output_dir: Path) -> Path:
    """Where E2Clab's own logs are, of all configurations together: a configuration's folder is in that of its run."""
    above = output_dir.parent
    return above if not (output_dir / LOG).is_file() and (above / LOG).is_file() else output_dir


def _log(output_dir: Path) -> str:
    try:
        return (run_folder(output_dir) / LOG).read_text(encoding="utf-8", errors="replace")
    except OSError:
        return ""


def _logged(output_dir: Path) -> list[datetime]:
    """In local time."""
    return [datetime.fromisoformat(each) for each in _LOGGED.findall(_log(output_dir))]


def _written(when: datetime) -> str:
    return when.astimezone().isoformat(timespec="seconds")


@dataclass(frozen=True, kw_only=True)
class CarriedOut:
    """What of ``scenario`` its workers say was emulated."""

    scenario: Scenario
    facts: Mapping[str, HostFacts | None]  # by host

    @classmethod
    def of(cls, scenario: Scenario, left: ReadArchive) -> CarriedOut:
        """Of the hosts that train, in rank order. Raises: ArchiveError for damaged facts."""
        known = left.host_facts
        return cls(scenario=scenario, facts={host.name: known.get(host.name) for host in scenario.topology.ranks})

    @property
    def backend(self) -> str:
        """By which links were emulated: one of this program's, or E2Clab's own rules."""
        said = {Backend(each.deployed.backend) for each in self.facts.values() if each and each.deployed}
        least = Backend.least(said) if said else Backend.NONE
        return BY_E2CLAB if least is Backend.NONE else least.value

    @property
    def speed(self) -> dict[str, float]:
        """Hosts whose computing was paced -> times a core."""
        return {host: each.compute.speed for host, each in self.facts.items() if each and each.compute.speed}

    @property
    def effective(self) -> Scenario:
        """The scenario, without the departures that nobody put in force."""
        injected = self.scenario.injected
        shaped, paced = self.backend != BY_E2CLAB, self.speed
        nothing: Mapping[Any, Any] = MappingProxyType({})
        carried = Injected(
            seed=injected.seed,
            compute={host: factor for host, factor in injected.compute.items() if host in paced},
            links=injected.links if shaped else nothing,
            faults=tuple(each for each in injected.faults if self._carried(each.kind, each.host)),
        )
        return replace(self.scenario, injected=carried)

    def _carried(self, kind: FaultKind, host: str | None) -> bool:
        if kind in LINK_FAULTS:
            return self.backend != BY_E2CLAB
        return kind is not FaultKind.SLOW_HOST or host in self.speed

    def recorded(self) -> dict[str, Any]:
        """For run.json."""
        speed = self.speed
        why = "each worker paced itself by calibrated sleep" if speed else "no worker says that it was paced"
        compute = {"method": "sleep" if speed else "none", "speed": speed, "oversubscribed": False, "why": why}
        return {"backend": self.backend, "compute": compute, "tcp": vars(self.scenario.tcp)}

    def hosts(self) -> tuple[dict[str, Any], ...]:
        """Who took part, for run.json."""
        return described.hosts(self.scenario, self._of_host)

    def _of_host(self, name: str) -> dict[str, Any]:
        its = self.facts.get(name)
        if its is None:
            return {}
        known = {"host_name": its.host_name, "kernel": its.kernel, "cores": its.cores, "cpu_model": its.cpu_model,
                 "memory_bytes": its.memory_bytes}  # fmt: skip
        at = its.deployed
        reached = {} if at is None else {"address": at.address, "data_address": at.data_address,
                                         "data_device": at.data_device}  # fmt: skip
        return {key: value for key, value in (known | reached).items() if value is not None}

    def versions(self) -> dict[str, str]:
        """Package -> version, of the hosts and of what deployed them; where hosts differ, all of theirs."""
        facts = [each for each in self.facts.values() if each is not None]
        return described.versions(
            each.versions | ({} if each.deployed is None else each.deployed.versions) for each in facts
        )

    def limitations(self) -> tuple[str, ...]:
        """What of the scenario was not emulated, in sentences."""
        return (*self._of_links(), *self._of_computing(), *described.grouped(self._of_tcp()))

    def _of_links(self) -> Sequence[str]:
        why = self._said(lambda its: its.why)
        if self.backend == BY_E2CLAB:
            injected = sorted(f"{src} -> {dst}" for src, dst in self.scenario.injected.links)
            said = [f"not injected, as no link was shaped: {', '.join(injected)}"] if injected else []
            return [AS_APPLIED, *why, *said, *self._beyond_e2clab()]
        netem = self.backend == Backend.TC.value
        failed = (f"links not in force: {each}" for each in self._said(lambda its: its.failure))
        missing = tc.unsupported(self.scenario.emulated_topology(), netem=netem)
        return [*failed, *missing, *(why if missing else ())]

    def _beyond_e2clab(self) -> list[str]:
        """What emulation.yaml asks of the network, which E2Clab does not read."""
        shared = [f"bottleneck {each.name}" for each in self.scenario.topology.bottlenecks]
        scheduled = [f"schedule of {src} -> {dst}" for src, dst in self.scenario.schedules.links]
        return [f"not applied: {', '.join([*shared, *scheduled])}"] if shared or scheduled else []

    def _said(self, what: Callable[[Deployed], str]) -> tuple[str, ...]:
        """What hosts say of themselves, those together that say the same."""
        said = {host: what(its.deployed) for host, its in self.facts.items() if its and its.deployed}
        return described.grouped((host, sentence) for host, sentence in said.items() if sentence)

    def _of_computing(self) -> Sequence[str]:
        wanted = compute_plan(self.scenario).speed
        if self.scenario.trained is None:
            slowed = [name for name in self.scenario.topology.names if self.scenario.emulated_factor(name) != 1]
            return [f"{', '.join(slowed)}: not slowed: plain E2Clab gives no program a CPU quota"] if slowed else []
        silent = [host for host, its in self.facts.items() if host in wanted and its and not its.compute.speed]
        if not silent:
            return ()
        return (f"{', '.join(silent)}: computed as fast as it could: emulation.yaml asks for a host that is paced",)

    def _of_tcp(self) -> list[tuple[str, str]]:
        asked = int(self.scenario.tcp.slow_start_after_idle)
        key, found = "tcp_slow_start_after_idle", []
        for host, each in self.facts.items():
            has = {} if each is None else each.buffers.get("limits", {})
            if key in has and has[key] != str(asked):
                line = f"net.ipv4.{key} was requested to be {asked}, and is {has[key]}: hosts keep their settings"
                found.append((host, line))
        return found
