"""Causes of a run's end, from what its workers left; consequences after them."""

from __future__ import annotations

from collections.abc import Mapping

from e2c_dl.archive.records import Cause, HostFacts, WorkerOutcome
from e2c_dl.errors import E2cDlError, FidelityError, TrainingError

NO_OUTCOME = "exited without an outcome (killed, or its host is gone)"


def explained(outcomes: Mapping[str, WorkerOutcome | None]) -> tuple[tuple[str, ...], E2cDlError | None]:
    """What happened to the workers, in sentences, causes first, and the error that says it best.

    ``outcomes``: host -> how its worker ended, None if it left no outcome: then that is the cause, and that others
    lost it the consequence. Nothing and None, if all of them finished.

    >>> explained({"edge-1": None})[0]
    ('worker edge-1 exited without an outcome (killed, or its host is gone)',)
    """
    said: dict[tuple[bool, str], list[str]] = {}  # (is a consequence, what happened) -> the hosts it happened to
    reasons: dict[tuple[bool, str], WorkerOutcome | None] = {}
    for host, outcome in outcomes.items():
        if outcome is not None and outcome.status == Cause.FINISHED.value:
            continue
        what = NO_OUTCOME if outcome is None else f"{outcome.status}: {outcome.reason}"
        key = (outcome is not None and outcome.is_consequence, what)
        said.setdefault(key, []).append(host)
        reasons.setdefault(key, outcome)
    if not said:
        return (), None
    order = sorted(said)  # False before True: causes, then what they caused
    sentences = tuple(f"worker {', '.join(said[key])} {key[1]}" for key in order)
    first = reasons[order[0]]
    if first is not None and first.cause is Cause.NOT_AS_REQUESTED:
        return sentences, FidelityError(first.reason)  # exit code 3
    return sentences, TrainingError(f"{sentences[0]}; see hosts/ in the archive")


def not_slowed(facts: Mapping[str, HostFacts | None]) -> tuple[str, ...]:
    """A sentence if hosts could not be made slow: where a gradient measures 0 s there is nothing to pace by."""
    known = {host: each.compute for host, each in facts.items() if each is not None}
    found = [host for host, it in known.items() if it.speed is not None and it.agreed_s and not any(it.agreed_s)]
    if not found:
        return ()
    return (f"{', '.join(found)}: the clock of CPU time is too coarse for so short a gradient: computed at full speed",)
