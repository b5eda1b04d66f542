"""What a plot of each changing element shows: the schedule that was asked for, and what training's own trace measured.

::

    link        wire bits of a message / the time it occupied the link          messages of at least 32 KiB
    bottleneck  wire bits of its links' messages, stacked by link: per second, and a few typical iterations closer
    host        time of a gradient / (sum of agreed segments / speed at factor 1)
    heat        the emulated temperature, as logged, and the limit from which the host throttles itself

A bottleneck has plots whether its rate changes or not: what its links share is asked for, too. Changing links that
carried no such message are told of in a sentence, as long as another one did.

The value asked for is the one in force, from the logs of changes; before a first change it is the scenario's, where the
archive has one. Seconds count from the beginning of training.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace

import numpy as np
import numpy.typing as npt

from e2c_dl import formatting
from e2c_dl.archive import layout
from e2c_dl.archive.read import ReadArchive
from e2c_dl.diagnosis.carried import LARGE_BYTES, Carried, Observed, Points, observed, together
from e2c_dl.dynamics.tempo import Tempo
from e2c_dl.report.changing import ARROW, Stretch, in_order, naming, sentences, steps, stretches, whom
from e2c_dl.report.page import shares
from e2c_dl.scenario.load import load
from e2c_dl.scenario.model import Scenario
from e2c_dl.topology import Link, Pair
from e2c_dl.trace.changes import Change, ChangeInForce
from e2c_dl.trace.model import Trace

BULK_OF_RATES = 0.9  # a message that was read late makes the next one look as fast as memory
CLOSE_ITERATIONS, CLOSE_STEPS = 3, 150  # what a bottleneck's closer look lasts, and its steps


@dataclass(frozen=True, kw_only=True)
class Mark:
    """Something that happened at a moment; ``value`` None: to the whole element."""

    at_s: float
    word: str
    value: float | None = None


@dataclass(frozen=True, kw_only=True)
class Panel:
    """One plot. ``asked`` are steps: each value holds until the next; NaN: no limit.

    Where ``measured`` has ``shares``, both are steps too.
    """

    title: str
    unit: str
    asked: Points = ()
    measured: Points = ()
    joined: bool = False  # measured values are one line
    bulk: float = 0.98  # of measured values that are not joined: the axis reaches so many of them
    shares: Mapping[str, Points] = field(default_factory=dict)  # name -> its part of ``measured``, at the same moments
    window_s: tuple[float, float] | None = None  # nothing else is shown; None: the whole run
    bands: Sequence[tuple[float, float]] = ()  # (begin, end) of cuts and pauses
    marks: Sequence[Mark] = ()


@dataclass(frozen=True, kw_only=True)
class Schedules:
    """Everything that changed or was shared, as plots and as sentences; the plots end at ``end_s``."""

    panels: tuple[Panel, ...]
    sentences: tuple[str, ...]
    end_s: float


def read(archive: ReadArchive) -> Schedules | None:
    """What changed or was shared in ``archive``; None if nothing did and was.

    Raises: ArchiveError, AnalysisError for a damaged piece; ScenarioError if its scenario cannot be read.
    """
    changes = archive.changes()
    scenario = load(archive.scenario) if (archive.path / layout.SCENARIO).is_dir() else None
    if not changes and (scenario is None or not scenario.topology.bottlenecks):
        return None
    seen = observed(_trace(archive), _delays_s(changes, scenario))
    end_s = max([seen.end_s, *(change.in_force_s for change in changes)])
    if not end_s:
        return None  # no worker began to train
    panels = [
        *_bottlenecks(changes, scenario, seen),
        *_links(changes, scenario, seen, end_s),
        *_hosts(archive, changes, scenario, seen, end_s),
    ]
    shared = shares.sentences(scenario.topology.bottlenecks, seen) if scenario else ()
    said = (*shared, *sentences(changes), *_not_plotted(changes, seen))
    return Schedules(panels=tuple(panels), sentences=said, end_s=end_s)


def _trace(archive: ReadArchive) -> Trace:
    folders = [archive.path / layout.HOSTS / host for host in archive.hosts]
    recorded = any((folder / name).is_file() for folder in folders for name in (layout.SPANS, layout.SPANS_RAW))
    return archive.trace() if recorded else Trace(ranks=(), facts={})


def _delays_s(changes: Sequence[ChangeInForce], scenario: Scenario | None) -> dict[Pair, float]:
    """The least that is ever asked for: a message never occupies its link before it can have arrived there."""
    links = {} if scenario is None else scenario.emulated_topology().links
    least = {pair: link.delay_s for pair, link in links.items()}
    for change in in_order(changes, Change.LINK):
        pair, delay_s = _pair(change.whom), float(change.value.get("delay_s", 0.0))
        least[pair] = min(least.get(pair, delay_s), delay_s)
    return least


def _links(
    changes: Sequence[ChangeInForce], scenario: Scenario | None, seen: Observed, end_s: float
) -> Iterable[Panel]:
    for name in _plotted(changes, seen):
        own = [change for change in changes if change.what is Change.LINK and change.whom == name]
        pair = _pair(name)
        before = None if scenario is None else scenario.emulated_topology().link(*pair)
        bands = _bands(stretches(own), end_s)
        rate = _asked([_stopped(change) for change in own], "rate_bps", 1e-6, before)
        others = {"delay, one way": ("ms", _asked(own, "delay_s", 1e3, before))}
        others["loss"] = "%", _asked(own, "loss", 100, before)
        changing = {what: each for what, each in others.items() if _varies(each[1])}
        if _varies(rate) or bands or not changing:
            measured = seen.carried[pair].rates() if pair in seen.carried else ()
            yield Panel(
                title=f"{name}: rate", unit="Mbit/s", asked=rate, measured=measured, bands=bands, bulk=BULK_OF_RATES
            )
        for what, (unit, asked) in changing.items():
            yield Panel(title=f"{name}: {what}", unit=unit, asked=asked, bands=bands)


def _plotted(changes: Sequence[ChangeInForce], seen: Observed) -> Sequence[str]:
    """The changing links that carried large messages; all, if none did."""
    names = whom(changes, Change.LINK)
    used = [name for name in names if (own := seen.carried.get(_pair(name))) is not None and own.large.any()]
    return used or names


def _not_plotted(changes: Sequence[ChangeInForce], seen: Observed) -> Iterable[str]:
    names, plotted = whom(changes, Change.LINK), _plotted(changes, seen)
    if len(plotted) < len(names):
        left_out = [name for name in names if name not in plotted]
        yield f"{naming(left_out)}: not plotted, as no message of at least {formatting.size(LARGE_BYTES)} went there"


def _stopped(change: ChangeInForce) -> ChangeInForce:
    """``change``; of a link that it cuts, the rate is 0."""
    return replace(change, value={**change.value, "rate_bps": 0.0}) if change.value.get("down") else change


def _asked(changes: Sequence[ChangeInForce], key: str, scale: float, before: Link | None) -> Points:
    value = None if before is None else getattr(before, key)
    known = None if before is None else math.nan if value is None else float(value)
    return [(moment, number * scale) for moment, number in steps(changes, key, known)]


def _bottlenecks(changes: Sequence[ChangeInForce], scenario: Scenario | None, seen: Observed) -> Iterable[Panel]:
    known = {} if scenario is None else {each.name: each for each in scenario.topology.bottlenecks}
    for name in sorted({*known, *whom(changes, Change.BOTTLENECK)}):
        own = [change for change in changes if change.what is Change.BOTTLENECK and change.whom == name]
        shared = known.get(name)
        asked = steps(own, "rate_bps", None if shared is None else shared.rate_bps)
        bare = Panel(
            title=f"bottleneck {name}: rate", unit="Mbit/s", asked=[(moment, rate / 1e6) for moment, rate in asked]
        )
        links = shares.of(shared, seen) if shared else {}
        yield _filled(bare, links, np.arange(math.floor(seen.end_s) + 1.0), "all links together, per second")
        length_s = min(CLOSE_ITERATIONS * seen.iteration_s, seen.end_s)
        if links and length_s:
            window_s = together(links.values()).typical_s(length_s, seen.end_s)
            edges_s = np.linspace(*window_s, CLOSE_STEPS + 1)
            close = _filled(bare, links, edges_s, f"a typical {formatting.seconds(length_s)}")
            yield replace(close, window_s=window_s)


def _filled(bare: Panel, links: Mapping[str, Carried], edges_s: npt.NDArray[np.float64], how: str) -> Panel:
    """``bare`` with what ``links`` carried between ``edges_s``, if they carried anything at all."""
    title = f"{bare.title}, {how}"
    if not links or len(edges_s) < 2:
        return replace(bare, title=title)
    parts = {name: carried.steps(edges_s) for name, carried in links.items()}
    return replace(bare, title=title, measured=together(links.values()).steps(edges_s), joined=True, shares=parts)


def _hosts(
    archive: ReadArchive, changes: Sequence[ChangeInForce], scenario: Scenario | None, seen: Observed, end_s: float
) -> Iterable[Panel]:
    kinds = (Change.COMPUTE, Change.PAUSE, Change.KILL, Change.THROTTLE, Change.RECOVER)
    for host in whom(changes, *kinds):
        own = in_order([change for change in changes if change.whom == host], *kinds, Change.RESUME)
        bands = _bands(stretches(own), end_s)
        kills = [Mark(at_s=change.in_force_s, word="killed") for change in own if change.what is Change.KILL]
        asked, heat = _slowness(own, host, scenario), archive.heat(host)
        if _varies(asked) or bands or kills or heat:
            measured = _relative(archive, host, scenario, seen)
            yield Panel(
                title=f"{host}: time of a gradient", unit="× at factor 1", asked=asked, measured=measured,
                bands=bands, marks=kills,
            )  # fmt: skip
        if heat:
            line = list(zip(heat["training_s"].tolist(), heat["temperature_c"].tolist(), strict=True))
            device = None if scenario is None else scenario.schedules.thermal.get(host)
            limit = [] if device is None else [(0.0, device.limit_c)]
            yield Panel(
                title=f"{host}: temperature, and the limit", unit="°C", asked=limit, measured=line, joined=True,
                marks=_switches(own),
            )  # fmt: skip


def _slowness(own: Sequence[ChangeInForce], host: str, scenario: Scenario | None) -> Points:
    """Times slower than a host of factor 1, heat included where the scenario tells what throttling does."""
    device = None if scenario is None else scenario.schedules.thermal.get(host)
    if not any(change.what is Change.COMPUTE for change in own):
        return [] if scenario is None else [(0.0, scenario.emulated_factor(host))]
    made: list[tuple[float, float]] = []
    factor, throttled = math.nan, 1.0
    for change in own:
        if change.what is Change.COMPUTE:
            factor = float(change.value["factor"])
        elif change.what in (Change.THROTTLE, Change.RECOVER):
            throttled = device.factor if device is not None and change.what is Change.THROTTLE else 1.0
        made.append((change.in_force_s, factor * throttled))
    return made


def _relative(archive: ReadArchive, host: str, scenario: Scenario | None, seen: Observed) -> Points:
    """Gradients' times over that of a host of factor 1; none of a host that is not paced, or whose batch changes."""
    facts = archive.path / layout.HOSTS / host / layout.FACTS
    compute = archive.host_facts(host).get("compute", {}) if facts.is_file() else {}
    agreed_s, speed = sum(compute.get("agreed_s", ())), compute.get("speed")
    if scenario is None or not agreed_s or not speed or scenario.training.batching == "dynamic":
        return ()
    shortest_s = agreed_s / Tempo.of(scenario, host, speed).base
    return [(moment, lasted_s / shortest_s) for moment, lasted_s in seen.gradients.get(host, ())]


def _switches(own: Sequence[ChangeInForce]) -> list[Mark]:
    words = {Change.THROTTLE: "throttled", Change.RECOVER: "recovered"}
    return [
        Mark(at_s=change.in_force_s, word=words[change.what], value=float(change.value["temperature_c"]))
        for change in own
        if change.what in words
    ]


def _bands(found: Iterable[Stretch], end_s: float) -> list[tuple[float, float]]:
    return [(stretch.begun.in_force_s, min(stretch.end_s, end_s)) for stretch in found]


def _varies(points: Points) -> bool:
    return len({value for _, value in points}) > 1


def _pair(name: str) -> Pair:
    src, _, dst = name.partition(ARROW)
    return src, dst
