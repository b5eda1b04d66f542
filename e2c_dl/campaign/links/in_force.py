"""Links in force between hosts, shown, applied and cleared by hand: `e2c-dl emulate apply | show | clear`.

The truth comes from whoever emulates: the kernels, read back by tc, or the relay. The archive says what was requested.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from e2c_dl.campaign.links.targets import Target
from e2c_dl.emulation import tc
from e2c_dl.emulation.backend import Backend
from e2c_dl.emulation.link_values import link_to_json, links_from_json
from e2c_dl.emulation.relay.control import RelayControl
from e2c_dl.errors import EmulationError
from e2c_dl.testbeds import shaping
from e2c_dl.testbeds.base import Access
from e2c_dl.topology import BurstLoss, Link, Pair, Topology

UNLIMITED_BPS = 1e12
"""Of a bottleneck that a relay has and is not to limit any more."""


@dataclass(frozen=True, kw_only=True)
class InForce:
    """One directed link: requested, and as whoever emulates it says; None: nothing is in force."""

    src: str
    dst: str
    requested: Link
    in_force: Link | None

    @property
    def same(self) -> bool:
        """Whether what counts is as requested: of an unshaped link nothing need be in force."""
        return _essence(self.in_force or Link()) == _essence(self.requested)

    def to_json(self) -> dict[str, Any]:
        links = {"requested": link_to_json(self.requested), "in_force": self.in_force and link_to_json(self.in_force)}
        return {"src": self.src, "dst": self.dst, **links, "same": self.same}


def commands(target: Target, topology: Topology | None) -> dict[str, tuple[str, ...]]:
    """What apply (clear: no topology) would do, heading -> lines: every command, or what the relay would be told."""
    if target.backend is Backend.RELAY:
        pairs = _pairs(target)
        requested = {pair: Link() if topology is None else topology.link(*pair) for pair in pairs}
        return {"relay": tuple(f"{src} -> {dst}: {link.described()}" for (src, dst), link in requested.items())}
    addresses = {name: access.data_address for name, access in target.accesses.items()}
    found = {}
    for name, access in target.accesses.items():
        if topology is None:
            run = tc.clear(access.data_device)
        else:
            run = tc.commands(topology, name, access.data_device, addresses, netem=target.backend is Backend.TC)
        found[f"{name} ({access.address})"] = tuple(" ".join(command) for command in run)
    return found


def apply(target: Target, topology: Topology) -> tuple[str, ...]:
    """All of ``topology`` in force; what of it cannot be, in sentences. Raises: EmulationError."""
    if target.relay_socket is not None:
        links = {pair: topology.link(*pair) for pair in _pairs(target)}
        rates = {each.name: each.rate_bps for each in topology.bottlenecks}
        RelayControl(target.relay_socket).apply(links, rates)  # of all pairs: what it does not name is unshaped
        return ()
    if not target.backend.by_kernel:
        raise EmulationError(f"{target.name}: its links cannot be shaped; `e2c-dl doctor --on static` says why not")
    netem = target.backend is Backend.TC
    shaping.apply(tuple(target.accesses.values()), topology, netem=netem)
    return tc.unsupported(topology, netem=netem)


def clear(target: Target) -> None:
    """Nothing is shaped any more. Raises: EmulationError."""
    if target.relay_socket is not None:
        # the relay cannot drop a bottleneck that it began with
        rates = dict.fromkeys((each.name for each in target.requested.bottlenecks), UNLIMITED_BPS)
        RelayControl(target.relay_socket).apply(dict.fromkeys(_pairs(target), Link()), rates)
    else:
        shaping.clear(tuple(target.accesses.values()))


def show(target: Target) -> tuple[InForce, ...]:
    """Every link that is shaped, or was requested to be, sorted by name. Raises: EmulationError.

    Where nothing is known to have been requested, what is found is as requested.
    """
    if target.relay_socket is not None:
        found = dict(links_from_json(RelayControl(target.relay_socket).show()["links"]))
    else:
        found = _of_tc(target.accesses, shaping.show(tuple(target.accesses.values())))
    pairs = sorted({*found, *target.requested.links} & {*_pairs(target)})  # a scenario may have more hosts than are up
    requested = target.requested.links or found
    return tuple(
        InForce(src=src, dst=dst, requested=requested.get((src, dst), Link()), in_force=found.get((src, dst)))
        for src, dst in pairs
    )


def _pairs(target: Target) -> list[Pair]:
    return [(src, dst) for src in target.accesses for dst in target.accesses if src != dst]


def _of_tc(accesses: Mapping[str, Access], shown: Mapping[str, Any]) -> dict[Pair, Link]:
    names = {access.data_address: name for name, access in accesses.items()}
    found = {}
    for src, said in shown.items():
        for row in said["destinations"]:
            if row["address"] in names:
                found[src, names[row["address"]]] = _link(row)
    return found


def _link(row: Mapping[str, Any]) -> Link:
    """What on_host reads back of one destination; tc does not say which distribution a jitter has."""
    burst = None
    if "p" in row:
        losses = {"loss_in_bad": row.get("loss_in_bad", 1.0), "loss_in_good": row.get("loss_in_good", 0.0)}
        burst = BurstLoss(good_to_bad=row["p"], bad_to_good=row["r"], **losses)
    # those that are 0 are not shaped, and Link's own defaults
    kept = {name: row[name] for name in ("delay_s", "jitter_s", "loss", "reorder") if row.get(name)}
    return Link(rate_bps=row["rate_bps"], down=row["down"], burst=burst, **kept)


def _essence(link: Link) -> Sequence[object]:
    """What can be compared of two links, rounded as tc prints it."""
    rate_bps = None if link.rate_bps is None else float(f"{link.rate_bps:.3g}")  # three digits are all that tc prints
    rounded = [round(value, 4) for value in (link.delay_s, link.jitter_s, link.mean_loss, link.reorder)]
    return (rate_bps, *rounded, link.down)
