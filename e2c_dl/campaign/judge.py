"""Ends of a run: why it ended, and whether the network was as requested."""

from __future__ import annotations

import json

from e2c_dl.archive import layout
from e2c_dl.archive.read import ReadArchive
from e2c_dl.campaign.requested_links import joined
from e2c_dl.errors import E2cDlError, FidelityError, TrainingError
from e2c_dl.scenario.model import Scenario

NOT_AS_REQUESTED = "not as requested"
"""What the reason of a worker that --strict stopped says."""

CONSEQUENCE = "rank "
"""What the reason of a worker says that ended because of another's: "lost rank 2 (fog-1)", "rank 1 (edge-2): ..."."""


def explained(archive: ReadArchive, scenario: Scenario) -> tuple[tuple[str, ...], E2cDlError | None]:
    """What happened to the workers, in sentences, causes first, and the error that says it best.

    A worker that died without a word is the cause; that others then lost it is the consequence. Nothing and None, if
    all of them finished.
    """
    said: dict[str, list[str]] = {}  # what -> the hosts it happened to
    for host in scenario.topology.ranks:
        outcome = archive.host_outcome(host.name)
        if outcome is None:
            said.setdefault("died without a word (killed, or its host is gone)", []).append(host.name)
        elif outcome.get("status") != "finished":
            said.setdefault(f"{outcome.get('status')}: {outcome.get('reason')}", []).append(host.name)
    if not said:
        return (), None
    order = sorted(said, key=lambda what: (CONSEQUENCE in what, what))
    sentences = tuple(f"worker {', '.join(said[what])} {what}" for what in order)
    if NOT_AS_REQUESTED in order[0]:
        return sentences, FidelityError(order[0].partition(": ")[2])
    return sentences, TrainingError(f"{sentences[0]}; see hosts/ in the archive")


def not_slowed(archive: ReadArchive) -> tuple[str, ...]:
    """A sentence if hosts could not be made slow: where a gradient measures 0 s there is nothing to pace by."""
    found = []
    for host in archive.hosts:
        if (archive.path / layout.HOSTS / host / layout.FACTS).is_file():
            compute = archive.host_facts(host).get("compute", {})
            if compute.get("speed") is not None and "agreed_s" in compute and not any(compute["agreed_s"]):
                found.append(host)
    if not found:
        return ()
    return (f"{', '.join(found)}: the clock of CPU time is too coarse for so short a gradient: computed at full speed",)


def write_links(archive: ReadArchive, scenario: Scenario) -> tuple[str, ...]:
    """Write links.json: every link designed, requested, measured; one sentence per link that is not as requested."""
    rows = joined(archive, scenario)
    (archive.path / layout.LINKS).write_text(json.dumps([row.to_json() for row in rows], indent=1) + "\n")
    return tuple(sentence for row in rows for sentence in row.deviations())
