"""Measuring the links that training uses, before it starts, beside what was requested; writes ``links.json``.

All ranks compute the same rounds, in which no host and no bottleneck takes part in two measurements, and wait for each
other after each.
Responders are awake only until the last round: while training nothing listens but training.
"""

from __future__ import annotations

from e2c_dl import strategies
from e2c_dl.archive.records import Doing
from e2c_dl.drivers.live.abandoned import abandonable
from e2c_dl.drivers.live.calibrating import Tell
from e2c_dl.drivers.live.control import Control
from e2c_dl.drivers.live.members import Assignment
from e2c_dl.emulation.measuring.expected import alone
from e2c_dl.emulation.measuring.fidelity import LinkFidelity
from e2c_dl.emulation.measuring.quick import measure_link, rounds
from e2c_dl.emulation.measuring.responder import Responder
from e2c_dl.errors import FidelityError
from e2c_dl.topology import Pair


async def measure(assignment: Assignment, control: Control, tell: Tell) -> None:
    """Measure this host's links, all hosts together. Writes one row per outgoing link: LinkFidelity as JSON.

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
            await control.barrier(f"measured {number}")
            done += len(pairs)
    assignment.records.write_links([row.to_json() for row in rows])
    await _strictly(assignment, control, rows)


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
    measured = measure_link(
        src_address=assignment.own.data_address, dst_address=assignment.members[rank].data_address,
        port=ports[rank], there=alone(requested, src, dst), back=alone(requested, dst, src),
    )  # fmt: skip
    return LinkFidelity.of(src, dst, designed=scenario.topology, requested=requested, measured=measured)


async def _strictly(assignment: Assignment, control: Control, rows: list[LinkFidelity]) -> None:
    deviations = [sentence for row in rows for sentence in row.deviations()]
    everybody = await control.gather("deviations", deviations)  # all ranks shall end by the same sentence
    found = [sentence for sentences in everybody for sentence in sentences]
    if found and any(member.strict for member in assignment.members):
        more = f" and {len(found) - 1} more" if len(found) > 1 else ""
        raise FidelityError(f"not as requested: {found[0]}{more}; run without --strict to train on it all the same")
