"""Causes of a run's end, chosen from typed records by time: what followed from another comes after it.

::

    host ended, host silent         whatever its worker says, or does not say, follows from that
    the network's emulation ended   before whatever befell workers: of one that was killed only its last sign of life
                                    is known, which may be older than when the network was last seen well
    worker failed, was killed       in order of time
    another's failure               told or lost peers: consequences, as is having been asked to stop by this program,
                                    or killed by it after that: of one that was slow to start there is no outcome, and
                                    its last sign of life is older than the failure that it was ended for
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from math import inf

from e2c_dl.archive.records import Cause, HostEnding, HostFacts, WorkerOutcome
from e2c_dl.campaign.hosts.life import WHY, Silence
from e2c_dl.errors import E2cDlError, EmulationError, FidelityError, Interrupted, TestbedError, TrainingError

NO_OUTCOME = "exited without an outcome"
KILLED = "(killed, or its host is gone)"
NOTHING = "left nothing: it did not begin, or ended as it did"
_SEE = "see hosts/ in the archive"


@dataclass(frozen=True, kw_only=True)
class Event:
    """Something that went wrong. ``at_s``: Unix time, None if that is not known."""

    error: E2cDlError  # as the run would end with it
    sentence: str
    at_s: float | None = None
    consequence: bool = False

    asked: bool = False  # no failure: a worker ended because this program asked it to

    @property
    def order(self) -> tuple[bool, bool, bool, float]:
        """Causes first, then by time; what has none comes last."""
        beneath = type(self.error) is EmulationError  # not a link that measures differently, which workers tell
        return self.asked, self.consequence, not beneath, inf if self.at_s is None else self.at_s


@dataclass(frozen=True, kw_only=True)
class Known:
    """What was recorded of a run's hosts."""

    outcomes: Mapping[str, WorkerOutcome | None] = field(default_factory=dict)  # host -> None: it left none
    seen_s: Mapping[str, float] = field(default_factory=dict)  # host -> Unix time of its last sign of life in its files
    errors: Mapping[str, str] = field(default_factory=dict)  # host -> the exception in which its log ends
    left_nothing: Collection[str] = ()  # hosts without any record: the launch may not have come to their workers
    endings: Mapping[str, HostEnding] = field(default_factory=dict)  # hosts that ended before they were released
    silences: Sequence[Silence] = ()
    asked_to_stop: bool = False  # whether this program asked the workers to


def explained(known: Known) -> tuple[Event, ...]:
    """What happened to hosts and workers, causes first, each oldest first. Empty if all workers finished.

    >>> [event.sentence for event in explained(Known(outcomes={"edge-1": None}))]
    ['worker edge-1 exited without an outcome (killed, or its host is gone)']
    """
    events = [_ended(host, ending) for host, ending in known.endings.items()]
    lost = [each for each in known.silences if each.until_s is None and each.host not in known.endings]
    events += [_silent(each) for each in lost]
    gone = {*known.endings, *(each.host for each in lost)}
    return tuple(sorted([*events, *_of_workers(known, gone)], key=lambda event: event.order))


def told(
    failures: Sequence[tuple[str, E2cDlError]], events: Sequence[Event]
) -> tuple[tuple[str, ...], E2cDlError | None]:
    """What happened, in sentences, the cause first; and the error that says it best, None if all went well.

    ``failures``: (step, error), oldest first. Whoever stopped the run is the cause, then what happened on its hosts;
    what a step says of that only repeats it.
    """
    steps = [(f"{step}: {error}", error) for step, error in failures]
    events = sorted(events, key=lambda event: event.order)
    happened = [(event.sentence, event.error) for event in events if not event.asked]
    asked = [(event.sentence, event.error) for event in events if event.asked]
    known = {sentence for sentence, _ in happened}
    if failures and isinstance(failures[0][1], Interrupted):
        order = [steps[0], *happened, *steps[1:], *asked]
    elif any(not (event.consequence or event.asked) for event in events):
        order = [*happened, *(each for each in steps if not _repeats(each[1], known)), *asked]
    else:
        order = [*steps, *happened, *asked]
    return tuple(dict.fromkeys(sentence for sentence, _ in order)), order[0][1] if order else None


def _repeats(error: E2cDlError, known: Iterable[str]) -> bool:
    """Whether a step's failure only says what is known of the hosts: a workflow fails because its workers did."""
    return isinstance(error, TrainingError) or str(error) in known


def not_slowed(facts: Mapping[str, HostFacts | None]) -> tuple[str, ...]:
    """A sentence if hosts could not be made slow: where a gradient measures 0 s there is nothing to pace by."""
    known = {host: each.compute for host, each in facts.items() if each is not None}
    found = [host for host, it in known.items() if it.speed is not None and it.agreed_s and not any(it.agreed_s)]
    if not found:
        return ()
    return (f"{', '.join(found)}: the clock of CPU time is too coarse for so short a gradient: computed at full speed",)


def _ended(host: str, ending: HostEnding) -> Event:
    sentence = f"host {host} ended: {ending.described()}"
    return Event(error=TestbedError(sentence), sentence=sentence, at_s=ending.at_s)


def _silent(silence: Silence) -> Event:
    sentence = f"host {silence.told()}: {WHY}"
    return Event(error=TestbedError(sentence), sentence=sentence, at_s=silence.since_s)


def _of_workers(known: Known, gone: Iterable[str]) -> list[Event]:
    """One event per thing that happened, however many workers it happened to."""
    stopped = known.asked_to_stop and any(map(_says_why, known.outcomes.values()))
    found: dict[tuple[str, bool], list[str]] = {}  # (what happened, follows from another) -> the hosts
    for host, outcome in known.outcomes.items():
        if outcome is None and host in gone:
            continue  # its host's end says it
        if outcome is None or outcome.status != Cause.FINISHED.value:
            nothing = outcome is None and host in known.left_nothing
            consequence = nothing or (stopped if outcome is None else outcome.is_consequence)
            what = NOTHING if nothing else _what(outcome, known.errors.get(host, ""))
            found.setdefault((what, consequence), []).append(host)
    events = []
    for (what, consequence), hosts in found.items():
        sentence = f"worker {', '.join(hosts)} {what}"
        times = [at_s for host in hosts if (at_s := _at_s(host, known)) is not None]
        first = known.outcomes[hosts[0]]
        events.append(
            Event(
                error=_error(first, sentence),
                sentence=sentence,
                at_s=min(times, default=None),
                consequence=consequence,
                asked=known.asked_to_stop and first is not None and first.cause is Cause.STOPPED,
            )
        )
    return events


def _says_why(outcome: WorkerOutcome | None) -> bool:
    """Whether a worker tells a failure of its own: what this program then asks the others to stop for."""
    return outcome is not None and outcome.status == "failed" and not outcome.is_consequence


def _what(outcome: WorkerOutcome | None, error: str) -> str:
    if outcome is None:
        return f"{NO_OUTCOME}: {error}" if error else f"{NO_OUTCOME} {KILLED}"
    return f"{outcome.status}: {outcome.reason}"


def _at_s(host: str, known: Known) -> float | None:
    outcome = known.outcomes[host]
    return known.seen_s.get(host) if outcome is None else outcome.ended_s


def _error(outcome: WorkerOutcome | None, sentence: str) -> E2cDlError:
    if outcome is not None and outcome.cause is Cause.NOT_AS_REQUESTED:
        return FidelityError(outcome.reason)  # exit code 3
    return TrainingError(f"{sentence}; {_SEE}")
