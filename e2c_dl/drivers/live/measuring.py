"""Measuring what training will use, before it starts: links, into ``links.json``, gradients, into ``facts.json``.

What is slower than designed is told before the first iteration. All ranks compute the same rounds, in which no host and
no bottleneck takes part in two measurements, and wait for each other after each. Responders are awake only until the
last round: while training nothing listens but training.
"""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import msgspec

from e2c_dl import strategies, typed
from e2c_dl.archive.records import ComputeFacts, Doing, HostFacts, Noticed
from e2c_dl.drivers.live.abandoned import abandonable
from e2c_dl.drivers.live.calibrating import Tell
from e2c_dl.drivers.live.control import WHILE_ALIVE, Control
from e2c_dl.drivers.live.mathematics import Mathematics
from e2c_dl.drivers.live.members import Assignment
from e2c_dl.dynamics.speed import HostSpeed
from e2c_dl.emulation.measuring.expected import alone
from e2c_dl.emulation.measuring.fidelity import LinkFidelity
from e2c_dl.emulation.measuring.measured import Measured
from e2c_dl.emulation.measuring.probed import Probe
from e2c_dl.emulation.measuring.quick import measure_link, rounds
from e2c_dl.emulation.measuring.responder import Responder
from e2c_dl.errors import EmulationError, FidelityError
from e2c_dl.topology import Pair

TRIALS, TRIALS_S = 3, 5.0
"""Gradients that are tried: as many, or as many as begin within that time."""
MORE_TRIALS, MORE_S = 25, 1.0
"""And more, as many as begin within that."""


async def measure(assignment: Assignment, control: Control, tell: Tell) -> list[LinkFidelity]:
    """This host's links, measured by all hosts together; also written, one row each: LinkFidelity as JSON.

    A link over which next to nothing comes ends the run, unless that is only to probe: its row says so.

    Raises: FidelityError on every rank, if any rank is strict and any link deviates; EmulationError, Aborted.
    """
    links = used_links(assignment)
    rows: list[LinkFidelity] = []
    with Responder(assignment.own.data_address, 0) as responder:
        ports = await control.gather("responders", responder.port)
        bottlenecks = assignment.scenario.emulated_topology().bottlenecks
        done = 0
        for number, pairs in enumerate(rounds(links, bottlenecks)):  # all at once would measure each other
            tell(Doing(what="measuring links", done=done, of=len(links)))
            for src, dst in pairs:
                if src == assignment.own.name:
                    rows.append(await abandonable(_measured, assignment, dst, ports))
            await control.barrier(f"measured {number}", WHILE_ALIVE)  # a far link takes many times as long as others
            done += len(pairs)
    assignment.records.write_links([row.to_json() for row in rows])
    if not assignment.own.only_probe:  # which tells of all at its end
        await _strictly(assignment, control, rows)
    return rows


async def probe(
    assignment: Assignment, control: Control, thread: ThreadPoolExecutor, compute: Mathematics,
    rows: Sequence[LinkFidelity], tell: Tell,
) -> None:  # fmt: skip
    """Try a few gradients, all hosts at once as in training, and tell who is slower than designed.

    ``rows`` are this host's links. Parameters and samples stay as they are. Raises: Aborted.
    """
    tell(Doing(what="trying gradients"))
    trial_s = await asyncio.get_running_loop().run_in_executor(thread, _tried, compute)
    records = assignment.records
    facts = records.facts()
    paced = facts.compute if facts is not None else ComputeFacts()
    paced = msgspec.structs.replace(paced, trial_s=trial_s, designed_s=_designed_s(assignment, paced))
    records.amend_facts(compute=paced)
    found = _Found.of(records.facts(), rows)
    everybody = await control.collect("probed", msgspec.to_builtins(found), WHILE_ALIVE)
    if assignment.rank == 0:
        for sentence in _probed(assignment, everybody).sentences():
            tell(Noticed(noticed=sentence))


class _Found(msgspec.Struct, frozen=True, kw_only=True):
    """What one host found, as it tells rank 0: no more of its facts and of its links than is asked of them."""

    facts: HostFacts | None
    measured: dict[str, dict[str, Any] | None]  # Measured, by the link's destination, without what is not known

    @classmethod
    def of(cls, facts: HostFacts | None, rows: Sequence[LinkFidelity]) -> _Found:
        known = {row.dst: None if row.measured is None else _known(row.measured) for row in rows}
        if facts is None:
            return cls(facts=None, measured=known)
        compute = ComputeFacts(trial_s=facts.compute.trial_s, designed_s=facts.compute.designed_s)
        return cls(facts=HostFacts(cpu_model=facts.cpu_model, compute=compute), measured=known)


def _known(measured: Measured) -> dict[str, Any]:
    return {key: value for key, value in msgspec.to_builtins(measured).items() if value is not None}


def _probed(assignment: Assignment, everybody: Sequence[Any]) -> Probe:
    names = [member.name for member in assignment.members]
    found = dict(zip(names, typed.convert(everybody, list[_Found]), strict=True))
    measured = {
        (src, dst): None if seen is None else typed.convert(seen, Measured)
        for src, own in found.items()
        for dst, seen in own.measured.items()
    }
    return Probe.of(assignment.scenario, {name: own.facts for name, own in found.items()}, measured)


def _tried(compute: Mathematics) -> float:
    """Seconds of a gradient: the lower quartile. What else a machine does meanwhile makes some longer, none shorter.

    Hosts that share a machine try theirs all at once: of three, two may have met others.
    """
    tries: list[float] = []
    while (len(tries) < TRIALS and sum(tries) < TRIALS_S) or (len(tries) < MORE_TRIALS and sum(tries) < MORE_S):
        tries.append(compute.trial())
    return sorted(tries)[(len(tries) - 1) // 4]


def _designed_s(assignment: Assignment, paced: ComputeFacts) -> float | None:
    """What a gradient takes on this host by design, if it is paced."""
    if paced.speed is None or not paced.agreed_s:
        return None
    host = HostSpeed.of(assignment.scenario, assignment.own.name, paced.speed)
    return sum(paced.agreed_s) / host.base * host.schedule.at(0.0)


def used_links(assignment: Assignment) -> list[Pair]:
    """The links that the strategy uses, as hosts, in the strategy's order."""
    training = assignment.scenario.training
    strategy = strategies.load(training.strategy)(**training.strategy_settings)
    ranks = strategy.used_links([member.host.layer for member in assignment.members])
    return [(assignment.members[src].name, assignment.members[dst].name) for src, dst in ranks]


def _measured(assignment: Assignment, dst: str, ports: list[int]) -> LinkFidelity:
    src, scenario = assignment.own.name, assignment.scenario
    rank = next(rank for rank, member in enumerate(assignment.members) if member.name == dst)
    requested = scenario.emulated_topology()
    measured, failed = None, ""
    try:
        measured = measure_link(
            src_address=assignment.own.data_address, dst_address=assignment.members[rank].data_address,
            port=ports[rank], there=alone(requested, src, dst), back=alone(requested, dst, src),
        )  # fmt: skip
    except EmulationError as error:
        failed = str(error)
        if not assignment.own.only_probe:
            raise EmulationError(f"the link to {dst}: {error}") from error  # who that is, an address does not say
    designed = scenario.topology
    return LinkFidelity.of(src, dst, designed=designed, requested=requested, measured=measured, failed=failed)


async def _strictly(assignment: Assignment, control: Control, rows: list[LinkFidelity]) -> None:
    deviations = [sentence for row in rows for sentence in row.deviations()]
    # All ranks shall end by the same sentence; of many, how many there are.
    everybody = await control.gather("deviations", [len(deviations), *deviations[:1]])
    found = [sentence for _, *sentences in everybody for sentence in sentences]
    if found and any(member.strict for member in assignment.members):
        others = sum(count for count, *_ in everybody) - 1
        more = f" and {others} more" if others else ""
        raise FidelityError(f"not as requested: {found[0]}{more}; run without --strict to train on it all the same")
