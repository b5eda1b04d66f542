"""Records that each virtual host leaves in an archive: those of a live worker, where they have a meaning.

There is one clock, so every alignment is the identity; of metrics there is only when a host ran, and nothing is
measured of links.
"""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from msgspec.structs import replace

from e2c_dl.archive.host_records import HostRecords
from e2c_dl.archive.read import host_records
from e2c_dl.archive.records import Cause, ComputeFacts, HostFacts, Progress, WorkerOutcome
from e2c_dl.scenario.model import REAL, SHAPES, Scenario
from e2c_dl.strategies.base import Evaluation
from e2c_dl.trace.model import ClockAlignment
from e2c_dl.worlds.allotment import Allotment
from e2c_dl.worlds.virtual.profile import HostModel


def records(archive: Path, scenario: Scenario) -> list[HostRecords]:
    """Where each rank's records go, by rank; the hosts' folders are made."""
    found = [host_records(archive, host.name) for host in scenario.topology.ranks]
    for each in found:
        each.path.mkdir(parents=True, exist_ok=True)  # by now: logs of changes open files there
    return found


def facts(host: HostModel, real: bool) -> HostFacts:
    """What ``host`` is; ``real``: it trains, else shapes alone travel."""
    times = host.profile.gradient(host.samples)
    compute = ComputeFacts.of(
        host.profile.slices, host.profile.tensor_shapes,
        agreed_s=(times.data_s + times.forward_s, *times.backward_s), speed=1 / host.factor,
    )  # fmt: skip
    return HostFacts(
        cpu_model=f"virtual, by the profile of {host.profile.model}", cores=1,
        mathematics=REAL if real else SHAPES, compute=compute,
    )  # fmt: skip


def write_facts(archive: Path, hosts: Sequence[HostModel], real: bool) -> None:
    """facts.json and clock.json of every host."""
    for host in hosts:
        left = host_records(archive, host.name)
        left.write_clock(ClockAlignment())  # the identity: readers need no case for virtual runs
        left.write_facts(facts(host, real))


class ProgressFiles:
    """Every rank's progress.jsonl, a line per iteration; times are virtual seconds of training.

    ``curve`` says whose parameters are evaluated while training.
    """

    def __init__(self, hosts: Sequence[HostRecords], allotment: Allotment, curve: str) -> None:
        self._hosts, self._allotment, self._curve = hosts, allotment, curve
        self._pending: list[list[Progress]] = [[] for _ in hosts]
        self.done = [0] * len(hosts)  # iterations, by rank
        self.elapsed_s = [0.0] * len(hosts)

    def ended(self, rank: int, iteration: int, loss: float, accuracy: float | None, elapsed_s: float) -> Progress:
        """Note that ``rank`` has ended ``iteration`` (from 0); what to tell people, whose time is not virtual."""
        self.done[rank], self.elapsed_s[rank] = iteration + 1, elapsed_s
        self._add(rank, None if accuracy is None else self._curve, loss=loss, accuracy=accuracy)
        return replace(self._pending[rank][-1], remaining_s=None)

    def evaluated(self, rank: int, evaluation: Evaluation, model: str) -> None:
        self._add(rank, model, test_loss=evaluation.loss, accuracy=evaluation.accuracy)

    def write(self) -> None:
        """Append what was noted since the last time."""
        for host, lines in zip(self._hosts, self._pending, strict=True):
            host.append_progress(lines)  # in batches: thousands of ranks would open a file at each iteration
            lines.clear()

    def _add(self, rank: int, model: str | None, **known: float | None) -> None:
        done, elapsed_s = self.done[rank], self.elapsed_s[rank]
        used = self._allotment.used(done, elapsed_s)
        line = Progress.at(done, self._allotment.iterations or 0, elapsed_s, used, model, rank=rank, **known)
        self._pending[rank].append(line)


def write_outcomes(
    hosts: Sequence[HostRecords | None], progress: ProgressFiles, reason: str, evaluation: Evaluation | None, *,
    lost: int | None = None,
) -> None:  # fmt: skip
    """outcome.json of every host, by rank, but for one that was killed, which is None: that leaves none.

    Failed, with ``reason``, if that is not empty: because rank ``lost`` went away, if any did. Rank 0's with
    ``evaluation``.
    """
    failed = Cause.FAILED if lost is None else Cause.LOST_PEER
    for rank, host in enumerate(hosts):
        if host is None:
            continue
        judged = evaluation if rank == 0 else None
        host.write_outcome(
            WorkerOutcome.of(
                failed if reason else Cause.FINISHED, reason=reason, rank=rank,
                origin=None if lost == rank else lost,
                iterations_done=progress.done[rank], seconds=round(progress.elapsed_s[rank], 6),
                loss=judged.loss if judged else None, accuracy=judged.accuracy if judged else None,
            )
        )  # fmt: skip
