"""``faults:`` under ``injected:`` in ``emulation.yaml``: what happens while training runs, and diagnosis is not told.

::

    - {cut: [{src: edge-1, dst: cloud-1, symmetric: true}], at: 20s, for: 5s}     carries nothing
    - {partition: [[edge.*], [fog.*, cloud.*]], at: iteration 30, for: 5s}        the cut of all links between the sides
    - {slow_link: {src: random, dst: random}, rate_factor: 0.3, at: 20s, for: 10s, repeat: {every: 20s, until: 120s}}
    - {late_link: {src: edge-1, dst: cloud-1}, delay: 40ms, at: 20s}              its delay, and that much more
    - {lossy_link: {src: edge-1, dst: cloud-1}, loss: 2%, at: 20s}                of what it does not lose already
    - {slow_host: random, factor: 3, at: 20s, for: 10s}
    - {late_data: edge-1, delay: 200ms, at: 20s}                                  each batch comes that much later
    - {late_step: edge-1, delay: 50ms, at: 20s}                                   each step takes that much longer
    - {pause: edge-1, at: 10s, for: 2s}
    - {kill: random, at: {between: [10s, 60s]}}
    - {clock_step: edge-2, by: 50ms, at: 10s}
    - {clock_drift: edge-1, by: 100ppm, at: 0s, for: 30s}

``at`` is a time of training, an iteration, or drawn between two of either. Without ``for`` it lasts for good.
``repeat`` lets it begin again, as long as that is before ``until``, whenever it has been over for an exponentially
distributed time of mean ``every``; what is random is drawn anew each time.

Entry i, from 0, draws from ``random.Random(f"{seed}:faults:{i}")``, in this order: the time, then for each time that
it happens its places, and the time until the next. Nobody is killed twice: named hosts are killed first.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from e2c_dl import units
from e2c_dl.scenario.documents.field import Field, Findings, described
from e2c_dl.scenario.documents.keys import (
    DELAY,
    DRIFT,
    LOSS,
    OFFSET,
    SPAN,
    Key,
    Keys,
    Kind,
    listed,
    needed,
    some,
    unread,
)
from e2c_dl.scenario.documents.patterns import HOST, PLACE, RANDOM, SYMMETRIC, hosts_of, is_symmetric, pairs_of
from e2c_dl.scenario.emulation.draws import Ground, Moment, Place, Planned, Repeat, drawn
from e2c_dl.scenario.emulation.injection import MORE_TIMES_SLOWER, RATE_FACTOR, is_drawn, rated_pairs
from e2c_dl.scenario.model import Fault, FaultKind
from e2c_dl.topology import Host, Pair

MAX_TIMES = 1000
"""How often one entry may be expected to happen."""

_ITERATION = re.compile(r"\s*iteration\s+([0-9]{1,9})\s*")
_MOMENT = {
    "type": "string",
    "pattern": rf"^\s*(iteration\s+[0-9]+|{units.SPAN.pattern})\s*$",
    "description": "A time of training, such as 20s, or an iteration, counted from 0: iteration 30.",
}
_TWO_MOMENTS = {**listed(_MOMENT, least=2).schema, "maxItems": 2}

BETWEEN = Keys({"between": needed(Kind(read=Field.items, schema=_TWO_MOMENTS), "Drawn by the seed between these two.")})
REPEAT = Keys(
    every=needed(SPAN, "Mean of the exponentially distributed time between its end and its next beginning."),
    until=needed(SPAN, "It begins no more from then on."),
)
LINKS_OR_RANDOM = Keys(
    src=needed(PLACE, "Where the links begin; random: both ends are drawn."),
    dst=needed(PLACE, "Where they end; random: both ends are drawn."),
    symmetric=SYMMETRIC,
)
_LINKS = unread({"anyOf": [LINKS_OR_RANDOM.schema, listed(LINKS_OR_RANDOM.schema, least=1).schema]})
_SIDES = listed(listed(HOST.schema, least=1).schema, least=2)


@dataclass(frozen=True)
class _Form:
    """What an entry of one kind may and must say beside ``at``."""

    kind: FaultKind
    place: Kind[Any]
    says: str  # of its place
    value: Mapping[str, Key] = field(default_factory=dict)  # the key of its value, if it has one
    lasts: str = "may"  # has ``for``: may, must, never
    repeats: bool = True

    def keys(self, name: str) -> Keys:
        """All that such an entry may say."""
        lasting = Key(SPAN, "How long; for good if absent.", required=self.lasts == "must")
        return Keys(
            {
                name: needed(self.place, self.says),
                **self.value,
                "at": needed(unread({"anyOf": [_MOMENT, BETWEEN.schema]}), "When it begins."),
                **({} if self.lasts == "never" else {"for": lasting}),
                **({"repeat": Key(REPEAT.kind, "It happens again and again, by the seed.")} if self.repeats else {}),
            }
        )


_SIDES_SAY = "Sides, each a list of hosts or patterns; all links between them carry nothing."
_SLOWER_LINK = {"rate_factor": needed(RATE_FACTOR, "Times their rate.")}
_SLOWER_HOST = {"factor": needed(MORE_TIMES_SLOWER, "Times slower.")}
_LATER = {"delay": needed(some(DELAY), "That much more.")}
_LOSSIER = {"loss": needed(some(LOSS), "Of the segments that they do not lose already.")}

FORMS: Mapping[str, _Form] = {
    "cut": _Form(FaultKind.CUT, _LINKS, "These links carry nothing."),
    "partition": _Form(FaultKind.CUT, _SIDES, _SIDES_SAY),
    "slow_link": _Form(FaultKind.SLOW_LINK, _LINKS, "These links carry less.", _SLOWER_LINK),
    "late_link": _Form(FaultKind.LATE_LINK, _LINKS, "These links deliver later.", _LATER),
    "lossy_link": _Form(FaultKind.LOSSY_LINK, _LINKS, "These links lose more.", _LOSSIER),
    "slow_host": _Form(FaultKind.SLOW_HOST, PLACE, "This host computes more slowly.", _SLOWER_HOST),
    "late_data": _Form(FaultKind.LATE_DATA, PLACE, "Each batch of this host comes later.", _LATER),
    "late_step": _Form(FaultKind.LATE_STEP, PLACE, "Each step of this host takes longer.", _LATER),
    "pause": _Form(FaultKind.PAUSE, PLACE, "This host's worker is stopped, and goes on.", lasts="must"),
    "kill": _Form(FaultKind.KILL, PLACE, "This host's worker is killed.", lasts="never", repeats=False),
    "clock_step": _Form(
        FaultKind.CLOCK_STEP, PLACE, "The clock of this host's trace jumps.", {"by": needed(OFFSET)}, lasts="never"
    ),
    "clock_drift": _Form(
        FaultKind.CLOCK_DRIFT, PLACE, "The clock of this host's trace runs fast or slow.", {"by": needed(DRIFT)}
    ),
}
"""Every kind of entry by its own key."""

FAULT = {"anyOf": [form.keys(name).schema for name, form in FORMS.items()]}
_VALUES = tuple(dict.fromkeys(key for form in FORMS.values() for key in form.value))
_KNOWN = (*FORMS, "at", "for", "repeat", *_VALUES)


def read_faults(section: Field, seed: int | None, ground: Ground, found: Findings) -> tuple[Fault, ...]:
    """The faults in the order of the file, noting in ``found`` what is wrong; none without a seed."""
    entries = []
    for index, (item, own) in enumerate(found.each(found.attempt(section.items) or [])):
        entry = _entry(item, index, ground, own)  # by its place in the file, sound or not: draws of others stay
        if entry is not None and not own.errors:
            entries.append(entry)
    return () if seed is None else drawn(entries, seed, ground, found)


def _entry(item: Field, index: int, ground: Ground, found: Findings) -> Planned | None:
    """The entry; None, or one not to be used, after noting errors."""
    fields = item.keys(found, known=_KNOWN, required=["at"])
    names = [name for name in FORMS if name in fields]
    if found.errors:
        return None
    if len(names) != 1:
        problem = f"is {' and '.join(names)} at once" if names else "names no kind of fault"
        found.errors.append(item.error(problem, f"write one of {', '.join(FORMS)}"))
        return None
    name, form = names[0], FORMS[names[0]]
    _check_keys(name, form, item, fields, found)
    moment = found.attempt(_moment, fields["at"], ground.iterations)
    for_s = found.attempt(_lasting_s, fields["for"]) if "for" in fields else None
    said = [found.attempt(key.kind.read, fields[its]) for its, key in form.value.items() if its in fields]
    value = said[0] if said else None
    where = found.attempt(_where, name, fields[name], ground)
    repeat = None
    if "repeat" in fields and moment is not None and not found.errors:  # what is wrong with for is said first
        repeat = found.attempt(_repeat, fields["repeat"], moment, for_s)
    if moment is None or where is None or found.errors:
        return None
    return Planned(index=index, kind=form.kind, value=value, moment=moment, for_s=for_s, repeat=repeat, where=where)


def _check_keys(name: str, form: _Form, item: Field, fields: Mapping[str, Field], found: Findings) -> None:
    """Notes keys that mean nothing to this kind, and missing ones."""
    for key in form.value:
        if key not in fields:
            found.errors.append(item.error(f"{name} needs {key}", f"add {key}"))
    for key in _VALUES:
        if key in fields and key not in form.value:
            found.errors.append(fields[key].error(f"means nothing to {name}", "remove it"))
    if "for" in fields and form.lasts == "never":
        found.errors.append(fields["for"].error(f"{name} is done in a moment", "remove it"))
    if "for" not in fields and form.lasts == "must":
        found.errors.append(item.error(f"a {name} without end stops the run", "add for, such as for: 2s"))
    if "repeat" in fields and not form.repeats:
        found.errors.append(fields["repeat"].error("nobody is killed twice", "remove it, or write another kill"))
    elif "repeat" in fields and form.lasts != "never" and "for" not in fields:
        found.errors.append(fields["repeat"].error("what lasts for good cannot begin again", "add for"))


def _moment(field: Field, iterations: int) -> Moment:
    """When it begins, in a training of so many iterations. Raises: ScenarioError."""
    if not isinstance(field.value, dict):
        at, iteration = _at(field, iterations)
        return Moment(low=at, high=at, iteration=iteration)
    ends, between = BETWEEN.read(field)["between"], field.required("between")
    if len(ends) != 2:
        raise between.error(f"expected two moments, not {len(ends)}", "write e.g. [10s, 60s]")
    (low, iteration), (high, other) = (_at(end, iterations) for end in ends)
    if iteration is not other:  # nobody knows beforehand which of them comes first
        raise between.error("one is a time and one an iteration", "write two of one kind")
    if not low < high:
        raise between.error("the second is not after the first", "write the earlier one first")
    return Moment(low=low, high=high, iteration=iteration)


def _repeat(field: Field, moment: Moment, for_s: float | None) -> Repeat:
    """How often it happens again, which lasts ``for_s`` each time. Raises: ScenarioError."""
    said = REPEAT.read(field)
    every_s, until_s = said["every"], said["until"]
    if moment.iteration:
        raise field.error("repeats after a time, but begins with an iteration", "write at: as a time, such as 20s")
    if until_s <= moment.high:
        raise field.required("until").error("is over before it begins", f"write more than {moment.high:g}s")
    mean_s = every_s + (for_s or 0.0)
    if every_s == 0 or (until_s - moment.low) / mean_s > MAX_TIMES:
        raise field.required("every").error(f"would happen more than {MAX_TIMES} times", "write a longer time")
    return Repeat(every_s=every_s, until_s=until_s)


def _at(field: Field, iterations: int) -> tuple[float, bool]:
    """(seconds, False) or (iteration, True). Raises: ScenarioError."""
    text = field.text()
    match = _ITERATION.fullmatch(text)
    if match is None:
        if "iteration" in text:  # else it would be called a time without a unit
            raise field.error(f"{described(text)} is no iteration", "write e.g. iteration 30")
        return SPAN.read(field), False
    if int(match[1]) >= iterations:
        problem = f"{described(text)} never begins: training has {iterations}, counted from 0"
        raise field.error(problem, f"write at most iteration {iterations - 1}")
    return float(match[1]), True


def _lasting_s(field: Field) -> float:
    for_s = SPAN.read(field)
    if for_s == 0:
        raise field.error("lasts no time", "write above 0s, or remove it: then it lasts for good")
    return for_s


def _where(name: str, field: Field, ground: Ground) -> Place:
    """Raises: ScenarioError."""
    if name == "partition":
        return Place(links=_across(field, ground.hosts), place=field)
    if FORMS[name].place is _LINKS:
        return _links(name, field, ground)
    if field.text() == RANDOM:
        return Place(drawn=(False,), place=field)
    # Of a pattern, hosts without a rank are left out: faults of hosts happen to workers and their traces.
    training = tuple(host.name for host in hosts_of(field, ground.hosts) if host.rank is not None)
    if not training:
        raise field.error(f"{described(field.value)} does not train: there is no worker", "name a host that trains")
    return Place(hosts=training, place=field)


def _links(name: str, field: Field, ground: Ground) -> Place:
    entries = field.items() if isinstance(field.value, list) else [field]
    if not entries:
        raise field.error("names no link", "write e.g. {src: edge-1, dst: cloud-1}")
    links: dict[Pair, None] = {}
    random_ones = []
    for entry in entries:
        LINKS_OR_RANDOM.read(entry)
        if is_drawn(entry, ("src", "dst")):
            random_ones.append(is_symmetric(entry))
            continue
        slow = name == "slow_link"  # a link without a rate may be cut or late, and cannot be slowed
        pairs = rated_pairs(entry, ground.hosts, ground.least_rate_bps) if slow else pairs_of(entry, ground.hosts)
        links.update(dict.fromkeys(pairs))
    return Place(links=tuple(links), drawn=tuple(random_ones), place=field)


def _across(field: Field, hosts: Sequence[Host]) -> tuple[Pair, ...]:
    """All links between the sides of a partition. Raises: ScenarioError."""
    patterns = [side.items() for side in field.items()]
    # Dictionaries, not sets: links come in the order of the file, the same in every run.
    sides = [{host.name: None for each in side for host in hosts_of(each, hosts)} for side in patterns]
    if len(sides) < 2 or not all(sides):
        raise field.error("has not two sides with hosts in them", "write e.g. [[edge.*], [fog.*, cloud.*]]")
    everyone = [name for side in sides for name in side]
    twice = [name for name in dict.fromkeys(everyone) if everyone.count(name) > 1]
    if twice:
        raise field.error(f"{twice[0]} is on two sides", "leave each host on one side")
    return tuple((src, dst) for side in sides for src in side for other in sides if other is not side for dst in other)
