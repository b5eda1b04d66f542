"""What came of the trials, as tables: medians over seeds, least and most where they tell something.

A time that was not reached counts as longer than all others; a median of such is said as ``-``.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from dataclasses import asdict
from itertools import combinations
from statistics import fmean, median, mode

from benchmarks.systems import environments, table
from benchmarks.systems.trial import AFTER_S, TARGET, Ran


class Results:
    """Trials by system and environment."""

    def __init__(self, trials: Iterable[Ran]) -> None:
        self._cells: dict[tuple[str, str], list[Ran]] = {}
        for each in trials:
            self._cells.setdefault((each.asked.system, each.asked.environment), []).append(each)

    def of(self, system: str, environment: str) -> list[Ran]:
        """The trials, one per seed, that ended without a problem."""
        return [each for each in self._cells.get((system, environment), ()) if not each.problem]

    def times_s(self, system: str, environment: str) -> list[float]:
        """Seconds to the target by seed, sorted; infinite where it was not reached."""
        return sorted(math.inf if each.reached_s is None else each.reached_s for each in self.of(system, environment))

    def median_s(self, system: str, environment: str) -> float | None:
        """None, if there are no trials; infinite, if most did not reach the target."""
        times = self.times_s(system, environment)
        return median(times) if times else None

    @property
    def fewest_seeds(self) -> int:
        """Trials of the system and environment that has fewest of those that were tried; 0, if none were."""
        return min(map(len, self._cells.values()), default=0)

    def problems(self) -> list[str]:
        """What went wrong, a sentence for each trial that failed."""
        return [
            f"{each.asked.system}, {each.asked.environment}, seed {each.asked.seed}: {each.problem}"
            for cell in self._cells.values() for each in cell if each.problem
        ]  # fmt: skip

    def tried_in(self, chosen: Sequence[environments.Environment]) -> Results:
        """Those of the systems alone that were tried in any of ``chosen``."""
        names = {name for each in chosen for name in self.systems(each.name, parts=True)}
        return Results(each for (system, _), cell in self._cells.items() if system in names for each in cell)

    def tried(self) -> list[table.System]:
        """All that were tried, whatever came of it."""
        names = {system for system, _ in self._cells}
        return [each for each in table.systems() if each.name in names]

    def systems(self, environment: str, *, parts: bool = False) -> list[str]:
        """Those that were tried there, as the table of systems has them."""
        rows = [each for each in table.systems() if parts or not each.part_of]
        return [each.name for each in rows if self.of(each.name, environment)]


def comparison(results: Results, chosen: Sequence[environments.Environment]) -> str:
    """One row per system: time to the target with its range over seeds, accuracy after a while, and bytes."""
    head = [
        f"Seconds to {TARGET:.0%} (least-most over seeds), accuracy after {AFTER_S:g} s, MB sent until {TARGET:.0%}."
    ]
    lines = ["| system | " + " | ".join(each.name for each in chosen) + " |", "|---|" + "---|" * len(chosen)]
    for name in _named(results, chosen):
        cells = [_cell(results.of(name, each.name)) for each in chosen]
        lines.append(f"| {name} | {' | '.join(cells)} |")
    return "\n".join([*head, "", *lines])


def seeds(results: Results, chosen: Sequence[environments.Environment]) -> str:
    """How many seeds stand behind each cell of :func:`comparison`."""
    counts = {
        name: [count for each in chosen if (count := len(results.of(name, each.name)))]
        for name in _named(results, chosen)
    }  # fmt: skip
    usual = mode(count for its in counts.values() for count in its)
    others = [f"{name} {_ranging(its)}" for name, its in counts.items() if set(its) != {usual}]
    of_some = f", but of {', '.join(others)}" if others else ""
    not_run = " An empty cell was not run." if any(len(its) < len(chosen) for its in counts.values()) else ""
    return f"Seeds of each cell: {usual}{of_some}.{not_run}"


def _ranging(counts: Sequence[int]) -> str:
    least, most = min(counts), max(counts)
    return f"{most}" if least == most else f"{least} to {most}"


def evidence(results: Results, chosen: Sequence[environments.Environment]) -> str:
    """How ranks spent their time: what the traces say of why one system is faster than another."""
    lines = [
        "Of the traces: share of the time in which a rank computes, least and most of all ranks; iterations of the "
        "slowest and fastest rank; the fullest link, and how much of it was full; mean staleness of updates that are "
        "applied late.",
        "",
        "| environment | system | computing | iterations | fullest link | staleness |",
        "|---|---|---|---|---|---|",
    ]
    tried = [(each.name, name) for each in chosen for name in _named(results, [each])]
    return "\n".join([*lines, *(f"| {where} | {name} | {_spent(results.of(name, where))} |" for where, name in tried)])


def told_apart(results: Results, environment: str) -> float | None:
    """Of all pairs of systems, the share whose times do not overlap over seeds; None: too few trials."""
    ranges = [results.times_s(name, environment) for name in results.systems(environment)]
    pairs = [(one, other) for one, other in combinations(ranges, 2) if len(one) > 1 and len(other) > 1]
    if not pairs:
        return None
    return fmean(one[-1] < other[0] or other[-1] < one[0] for one, other in pairs)


def apart(results: Results, chosen: Sequence[environments.Environment]) -> str:
    """In a sentence each, how far the task tells systems apart."""
    shares = {each.name: told_apart(results, each.name) for each in chosen}
    said = [f"{name} {share:.0%}" for name, share in shares.items() if share is not None]
    if not said:
        return "One seed alone tells nothing of how far systems differ by more than by luck."
    return f"Pairs of systems whose times do not overlap over seeds: {', '.join(said)}."


def settings(results: Results) -> str:
    """The systems that were tried, with their settings, those that scenarios would say."""
    lines = ["| system | settings |", "|---|---|"]
    return "\n".join([*lines, *(f"| {each.name} | {each.described()} |" for each in results.tried())])


def recorded(came: Ran) -> dict[str, object]:
    """What of a trial these tables are made from."""
    link, share = fullest(came)
    values = {key: value for key, value in asdict(came).items() if key not in ("curve", "links")}
    return {**values, "fullest_link": link, "filled": round(share, 3)}


def fullest(came: Ran) -> tuple[str, float]:
    """The link that carried most of what it can, and how much of it: payload over its rate, in the mean."""
    environment = environments.ALL[came.asked.environment]
    layers = environment.layers()
    filled = {
        link: mbps / environment.mean_rate(*(layers[int(rank)] for rank in link.split()))
        for link, mbps in came.links.items()
    }
    return max(filled.items(), key=lambda item: item[1], default=("", 0.0))


def seconds(value: float | None) -> str:
    """A time for people; ``-``: not reached."""
    return "-" if value is None or math.isinf(value) else f"{value:.3g}"


def _named(results: Results, chosen: Sequence[environments.Environment]) -> list[str]:
    there = {name for each in chosen for name in results.systems(each.name, parts=True)}
    return [each.name for each in table.systems() if each.name in there]


def _cell(trials: Sequence[Ran]) -> str:
    if not trials:
        return ""
    times = sorted(math.inf if each.reached_s is None else each.reached_s for each in trials)
    spread = f" ({seconds(times[0])}-{seconds(times[-1])})" if len(times) > 1 and math.isfinite(median(times)) else ""
    sent = [each.bytes_to_target / 1e6 for each in trials if each.bytes_to_target is not None]
    accurate = median(each.accuracy for each in trials)
    bytes_said = f", {median(sent):,.0f} MB" if sent and math.isfinite(median(times)) else ""
    return f"{seconds(median(times))}{' s' if math.isfinite(median(times)) else ''}{spread}, {accurate:.0%}{bytes_said}"


def _spent(trials: Sequence[Ran]) -> str:
    one = trials[0]  # the first seed's: a trace is of one run
    computing = f"{min(one.computing):.0%} - {max(one.computing):.0%}"
    link, share = fullest(one)
    stale = "" if one.staleness is None else f"{one.staleness:.2g}"
    iterations = f"{min(one.iterations)} - {max(one.iterations)}"
    return f"{computing} | {iterations} | {link.replace(' ', ' -> ')}: {share:.0%} | {stale}"
