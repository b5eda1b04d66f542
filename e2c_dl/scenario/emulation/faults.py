"""``faults:`` under ``injected:`` in ``emulation.yaml``: what happens while training runs, and diagnosis is not told.

::

    - {cut: [{src: edge-1, dst: cloud-1, symmetric: true}], at: 20s, for: 5s}     carries nothing
    - {partition: [[edge.*], [fog.*, cloud.*]], at: iteration 30, for: 5s}        the cut of all links between the sides
    - {slow_link: {src: random, dst: random}, rate_factor: 0.3, at: 20s, for: 10s, repeat: {every: 20s, until: 120s}}
    - {slow_host: random, factor: 3, at: 20s, for: 10s}
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

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass

from e2c_dl import units
from e2c_dl.scenario.emulation.injection import fraction, is_drawn, more_times_slower
from e2c_dl.scenario.emulation.moments import read_moment, read_repeat
from e2c_dl.scenario.emulation.occurrences import Ground, Place, Planned, drawn
from e2c_dl.scenario.ends import LINK_KEYS, RANDOM, hosts_of, is_symmetric, pairs_of, shown
from e2c_dl.scenario.field import Field, Findings, described
from e2c_dl.scenario.model import Fault, FaultKind
from e2c_dl.topology import Host, Pair


@dataclass(frozen=True, kw_only=True)
class _Form:
    """What an entry of one kind may and must say beside its place and ``at``."""

    kind: FaultKind
    value: str | None = None  # the key of its value
    read: Callable[[Field], float] | None = None
    lasts: str = "may"  # has ``for``: may, must, never
    repeats: bool = True


FORMS: Mapping[str, _Form] = {
    "cut": _Form(kind=FaultKind.CUT),
    "partition": _Form(kind=FaultKind.CUT),
    "slow_link": _Form(kind=FaultKind.SLOW_LINK, value="rate_factor", read=fraction),
    "slow_host": _Form(kind=FaultKind.SLOW_HOST, value="factor", read=more_times_slower),
    "pause": _Form(kind=FaultKind.PAUSE, lasts="must"),
    "kill": _Form(kind=FaultKind.KILL, lasts="never", repeats=False),
    "clock_step": _Form(
        kind=FaultKind.CLOCK_STEP, value="by", read=lambda by: by.quantity(units.parse_offset), lasts="never"
    ),
    "clock_drift": _Form(kind=FaultKind.CLOCK_DRIFT, value="by", read=lambda by: by.quantity(units.parse_drift)),
}
"""Every kind of entry by its own key."""

COMMON = ("at", "for", "repeat")
_VALUES = tuple(dict.fromkeys(form.value for form in FORMS.values() if form.value))


def read_faults(section: Field, seed: int | None, ground: Ground, found: Findings) -> tuple[Fault, ...]:
    """The faults in the order of the file, noting in ``found`` what is wrong; none without a seed."""
    entries = []
    for index, item in enumerate(found.attempt(section.items) or []):
        own = Findings()
        entry = _entry(item, index, ground, own)
        found.errors += own.errors
        if entry is not None and not own.errors:
            entries.append(entry)
    return () if seed is None else drawn(entries, seed, ground, found)


def _entry(item: Field, index: int, ground: Ground, found: Findings) -> Planned | None:
    """The entry; None, or one not to be used, after noting errors."""
    fields = item.keys(found, known=(*FORMS, *COMMON, *_VALUES), required=["at"])
    names = [name for name in FORMS if name in fields]
    if found.errors:
        return None
    if len(names) != 1:
        problem = f"is {' and '.join(names)} at once" if names else "names no kind of fault"
        found.errors.append(item.error(problem, f"write one of {', '.join(FORMS)}"))
        return None
    name, form = names[0], FORMS[names[0]]
    _check_keys(name, form, item, fields, found)
    moment = found.attempt(read_moment, fields["at"], ground.iterations)
    for_s = found.attempt(_lasting_s, fields["for"]) if "for" in fields else None
    value = found.attempt(form.read, fields[form.value]) if form.read and form.value in fields else None
    where = found.attempt(_where, name, fields[name], ground)
    repeat = None
    if "repeat" in fields and moment is not None and not found.errors:
        repeat = found.attempt(read_repeat, fields["repeat"], moment, for_s)
    if moment is None or where is None or found.errors:
        return None
    return Planned(index=index, kind=form.kind, value=value, moment=moment, for_s=for_s, repeat=repeat, where=where)


def _check_keys(name: str, form: _Form, item: Field, fields: Mapping[str, Field], found: Findings) -> None:
    """Notes keys that mean nothing to this kind, and missing ones."""
    if form.value and form.value not in fields:
        found.errors.append(item.error(f"{name} needs {form.value}", f"add {form.value}"))
    for key in _VALUES:
        if key in fields and key != form.value:
            found.errors.append(fields[key].error(f"means nothing to {name}", "remove it"))
    if "for" in fields and form.lasts == "never":
        found.errors.append(fields["for"].error(f"{name} is done in a moment", "remove it"))
    if "for" not in fields and form.lasts == "must":
        found.errors.append(item.error(f"a {name} without end stops the run", "add for, such as for: 2s"))
    if "repeat" in fields and not form.repeats:
        found.errors.append(fields["repeat"].error("nobody is killed twice", "remove it, or write another kill"))
    elif "repeat" in fields and form.lasts != "never" and "for" not in fields:
        found.errors.append(fields["repeat"].error("what lasts for good cannot begin again", "add for"))


def _lasting_s(field: Field) -> float:
    for_s = field.quantity(units.parse_span)
    if for_s == 0:
        raise field.error("lasts no time", "write above 0s, or remove it: then it lasts for good")
    return for_s


def _where(name: str, field: Field, ground: Ground) -> Place:
    """Raises: ScenarioError."""
    if name == "partition":
        return Place(links=_across(field, ground.hosts), place=field)
    if name in ("cut", "slow_link"):
        return _links(name, field, ground)
    if field.text() == RANDOM:
        return Place(drawn=(False,), place=field)
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
        own = Findings()
        entry.keys(own, known=LINK_KEYS, required=("src", "dst"))
        if own.errors:
            raise own.errors[0]
        if is_drawn(entry, ("src", "dst")):
            random_ones.append(is_symmetric(entry))
            continue
        pairs = pairs_of(entry, ground.hosts)
        without = [pair for pair in pairs if pair not in ground.least_rate_bps]
        if name == "slow_link" and without:
            problem = f"{shown(without[0])} has no rate that could be multiplied"
            raise entry.error(problem, "add a rule for it to network.yaml, or name another link")
        links.update(dict.fromkeys(pairs))
    return Place(links=tuple(links), drawn=tuple(random_ones), place=field)


def _across(field: Field, hosts: Sequence[Host]) -> tuple[Pair, ...]:
    """All links between the sides of a partition. Raises: ScenarioError."""
    sides = [
        {host.name: None for pattern in side.items() for host in hosts_of(pattern, hosts)} for side in field.items()
    ]
    if len(sides) < 2 or not all(sides):
        raise field.error("has not two sides with hosts in them", "write e.g. [[edge.*], [fog.*, cloud.*]]")
    everyone = [name for side in sides for name in side]
    twice = [name for name in dict.fromkeys(everyone) if everyone.count(name) > 1]
    if twice:
        raise field.error(f"{twice[0]} is on two sides", "leave each host on one side")
    return tuple((src, dst) for side in sides for src in side for other in sides if other is not side for dst in other)
