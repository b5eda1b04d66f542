"""Results of a campaign as Markdown: the bars, by kind, strategy and stretch, and every wrong run by name."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence

import numpy as np

from benchmarks.diagnosis.bars import Bar, errors_of, onset_right
from benchmarks.diagnosis.judging import CLEAN, EDGE, MATERIAL, VOID, Culprit, Outcome


def text(outcomes: Sequence[Outcome], found: Sequence[Bar]) -> str:
    """All tables, the bars that were ``found`` first, and the wrong runs."""
    kinds = {kind: [one for one in outcomes if one.kind == kind] for kind in (MATERIAL, CLEAN, EDGE)}
    summary = (
        f"{len(kinds[MATERIAL])} material runs, {_right(kinds[MATERIAL])} exactly right; {len(kinds[CLEAN])} clean "
        f"runs, {_alarms(kinds[CLEAN])} with a false alarm; {len(kinds[EDGE])} too near the bar of 5 % to tell, "
        f"which count as neither; {sum(one.kind == VOID for one in outcomes)} that the virtual world could not run."
    )
    parts = [
        summary,
        "## Bars\n\n| bar | asked | found | of | |\n|---|---|---:|---:|---|\n" + "\n".join(bar.row for bar in found),
        "## By what was injected\n\n" + _by(kinds[MATERIAL], lambda one: one.what),
        "## By how much\n\n" + _by(kinds[MATERIAL], lambda one: f"x{one.factor:g}"),
        "## By stretch\n\n" + _by(kinds[MATERIAL], lambda one: one.when),
        "## By strategy\n\n" + _by_strategy(outcomes),
        "## By rules in use elsewhere, in the same traces\n\n" + _rules(outcomes),
        "## Wrong\n\n" + wrong(outcomes),
    ]
    return "\n\n".join(parts)


def _right(outcomes: Iterable[Outcome]) -> int:
    return sum(one.right for one in outcomes)


def _alarms(clean: Iterable[Outcome]) -> int:
    return sum(bool(one.named) for one in clean)


def _by(outcomes: Sequence[Outcome], key: Callable[[Culprit], str]) -> str:
    """Material culprits by ``key``; a run with two of them counts in both rows."""
    lines = [
        "| | culprits | named | as what it is | onset | run right | layers |",
        "|---|---:|---:|---:|---:|---:|---:|",
    ]
    rows: dict[str, list[tuple[Outcome, Culprit]]] = {}
    for outcome in outcomes:
        for culprit in outcome.material:
            rows.setdefault(key(culprit), []).append((outcome, culprit))
    for name, pairs in sorted(rows.items()):
        began = [culprit for _, culprit in pairs if culprit.onset is not None]
        layers = [culprit for _, culprit in pairs if culprit.layer]
        cells = (
            len(pairs), sum(one.named for _, one in pairs), sum(one.part_right for _, one in pairs),
            f"{sum(map(onset_right, began))} of {len(began)}", sum(run.right for run, _ in pairs),
            f"{sum(one.named for one in layers)} of {len(layers)}",
        )  # fmt: skip
        lines.append(f"| {name} | {' | '.join(map(str, cells))} |")
    return "\n".join(lines)


def _by_strategy(outcomes: Sequence[Outcome]) -> str:
    lines = [
        "| strategy | material | right | clean | false alarms | predictions | median error | 90th percentile |",
        "|---|---:|---:|---:|---:|---:|---:|---:|",
    ]
    for strategy in sorted({one.strategy for one in outcomes}):
        own = [one for one in outcomes if one.strategy == strategy]
        material, clean = ([one for one in own if one.kind == kind] for kind in (MATERIAL, CLEAN))
        errors = errors_of(own)
        shown = [f"{np.quantile(errors, part):.1%}" if errors else "-" for part in (0.5, 0.9)]
        cells = (len(material), _right(material), len(clean), _alarms(clean), len(errors), *shown)
        lines.append(f"| {strategy} | {' | '.join(map(str, cells))} |")
    return "\n".join(lines)


def _rules(outcomes: Sequence[Outcome]) -> str:
    """How often each names exactly the material elements, and how often anybody where nothing was wrong."""
    material, clean = ([one for one in outcomes if one.kind == kind] for kind in (MATERIAL, CLEAN))
    of_links = [one for one in material if all(" -> " in name for culprit in one.material for name in culprit.names)]
    of_hosts = [
        one for one in material if not any(" -> " in name for culprit in one.material for name in culprit.names)
    ]
    lines = [
        "| rule | hosts, exactly | links, exactly | names somebody in a clean run |",
        "|---|---:|---:|---:|",
        f"| e2c_dl | {sum(map(_exact, of_hosts))} of {len(of_hosts)} | {sum(map(_exact, of_links))} of {len(of_links)} "
        f"| {_alarms(clean)} of {len(clean)} |",
    ]
    for rule in sorted({rule for one in outcomes for rule in one.rules}):
        counts = [
            f"{sum(_exact(one, one.rules.get(rule, ())) for one in group)} of {len(group)}"
            for group in (of_hosts, of_links)
        ]
        alarms = sum(bool(one.rules.get(rule)) for one in clean)
        lines.append(f"| {rule} | {' | '.join(counts)} | {alarms} of {len(clean)} |")
    return "\n".join(lines)


def _exact(one: Outcome, named: Sequence[str] | None = None) -> bool:
    """Whether ``named`` (None: by the report) are the material elements and nobody else; of what kind is not asked."""
    chosen = set(one.named if named is None else named)
    must = {name for culprit in one.material for name in culprit.names}
    may = {name for culprit in one.culprits if culprit.edge for name in culprit.names}
    return must <= chosen <= must | may


def wrong(outcomes: Iterable[Outcome]) -> str:
    """Every wrong run: what repeats it, what was injected, what was named."""
    return "\n".join(line for one in outcomes if not one.right for line in described(one)) or "None."


def described(one: Outcome) -> list[str]:
    """A bullet, and below it what was injected and what was named."""
    said = [
        f"{each.said} (run {each.speedup:.2f} x faster without{'' if each.material else ', immaterial'})"
        for each in one.culprits
    ]
    named = ", ".join(one.named) or "nobody"
    parts = [each.said for each in one.material if each.named and not each.part_right]
    more = f"; as another part: {'; '.join(parts)}" if parts else ""
    return [
        f"* `--seed {one.seed} --run {one.number}`, {one.strategy}, {one.hosts} hosts: "
        f"{'; '.join(said) or 'nothing injected'}. Named: {one.failed or named + more}."
    ]
