"""A comparison on a terminal: per metric both values and the difference, then where the time went, and culprits."""

from __future__ import annotations

from collections.abc import Callable, Iterator

from rich import box
from rich.console import Group, RenderableType
from rich.table import Table
from rich.text import Text

from e2c_dl import formatting
from e2c_dl.diagnosis.comparing.compare import Comparison, Contrast, Difference, Metric
from e2c_dl.diagnosis.states import State
from e2c_dl.report.terminal import add_names

ROWS = 24
"""Hosts in a table, those first whose time changed most; --json has all."""

SETTINGS = 12
"""Settings that are told, those of training first; --json has all."""

UNITS: dict[Metric, Callable[[float | None], str]] = {
    Metric.MAKESPAN: formatting.seconds,
    Metric.ITERATION: formatting.seconds,
    Metric.TIME_TO_ACCURACY: formatting.seconds,
    Metric.BYTES: formatting.size,
}


def summary(found: Comparison) -> RenderableType:
    """What ``found`` says, each group beside the baseline."""
    parts: list[RenderableType] = []
    for contrast in found.contrasts:
        parts += [*_contrast(found, contrast), Text("")]
    if found.limitations:
        parts += [Text("Limitations", style="bold"), *(_bullet(line) for line in found.limitations)]
    return Group(*parts)


def _contrast(found: Comparison, contrast: Contrast) -> Iterator[RenderableType]:
    runs = [formatting.count(count, "run") for count in (found.runs, contrast.runs)]
    yield Text(_visible(f"{contrast.name} ({runs[1]}) beside {found.baseline} ({runs[0]})"), style="bold")
    yield _differences(found, contrast)
    yield from (_bullet(line) for line in map(_sentence, contrast.differences) if line)
    yield Text("")
    yield _states(contrast)
    yield Text("")
    for name, culprits in ((found.baseline, found.culprits), (contrast.name, contrast.culprits)):
        yield Text(_visible(f"Culprits of {name}: {'; '.join(culprits) or 'none'}"))
    changed = [f"{key}: {_short(before)} -> {_short(after)}" for key, (before, after) in contrast.settings.items()]
    if len(changed) > SETTINGS:
        changed[SETTINGS:] = [f"and {len(changed) - SETTINGS} more (--json has all)"]
    yield Text(_visible(f"Set differently: {'; '.join(changed) or 'nothing'}"))


def _differences(found: Comparison, contrast: Contrast) -> Table:
    table = Table(box=box.SIMPLE_HEAD, padding=(0, 2, 0, 0), show_edge=False)
    for name in ("", found.baseline, contrast.name, "difference", "95 % interval"):
        table.add_column(Text(_visible(name)), justify="left" if not name else "right")
    for difference in contrast.differences:
        shown = UNITS[difference.metric]
        beside = ("", "")
        if difference.before is not None and difference.after is not None:
            beside = (_signed(difference.after - difference.before, shown), _interval(difference))
        style = {True: "bold", False: "dim", None: ""}[difference.differs]
        table.add_row(_name(difference.metric, found), shown(difference.before), shown(difference.after), *beside,
                      style=style)  # fmt: skip
    return table


def _name(metric: Metric, found: Comparison) -> str:
    if metric is Metric.TIME_TO_ACCURACY and found.accuracy is not None:
        return f"time to accuracy {found.accuracy:.3g}"
    return "bytes per iteration" if metric is Metric.BYTES else metric.value


def _interval(difference: Difference) -> str:
    if difference.interval is None or not difference.before:
        return formatting.DASH
    low, high = (100 * bound / difference.before for bound in (difference.interval.low, difference.interval.high))
    return f"{low:+.1f} .. {high:+.1f} %"


def _sentence(difference: Difference) -> str:
    """What the figures say in words; empty of a difference."""
    what = difference.metric.value
    if difference.before is None or difference.after is None:
        return f"{what}: a run tells no such value."
    if difference.interval is None:
        return f"{what}: no interval, as nothing repeats on both sides; several runs a side give one."
    if difference.differs:
        return ""
    if not difference.smallest:
        return f"{what}: the same in every one of the {difference.by}."
    could = formatting.percent(difference.smallest / difference.before) if difference.before else formatting.DASH
    return f"{what}: no difference; one of {could} would have been seen in four of five cases."


def _states(contrast: Contrast) -> Table:
    """Seconds per iteration, the baseline's and this group's, of the hosts that changed most."""
    table = Table(box=box.SIMPLE_HEAD, padding=(0, 2, 0, 0), show_edge=False)
    changed = {
        host: sum(abs(after - before) for before, after in states.values())
        for host, states in contrast.states_s.items()
    }
    shown = sorted(changed, key=changed.__getitem__, reverse=True)[:ROWS]
    add_names(table, "per iteration", shown)
    for state in State:
        table.add_column(state.value, justify="right")
    for host in shown:
        states = contrast.states_s[host]
        pairs = (f"{formatting.seconds(before)} -> {formatting.seconds(after)}" for before, after in states.values())
        table.add_row(Text(_visible(host)), *pairs)
    if len(contrast.states_s) > ROWS:
        table.add_row(f"and {len(contrast.states_s) - ROWS} more", style="dim")
    return table


def _signed(value: float, shown: Callable[[float | None], str]) -> str:
    return f"{'+' if value > 0 else ''}{shown(value)}"


def _short(value: object) -> str:
    text = str(value)
    return text if len(text) <= 40 else f"{text[:37]}..."


def _bullet(line: str) -> Text:
    return Text(f"- {_visible(line)}")


def _visible(text: str) -> str:
    return formatting.visible(text, breaks="")
