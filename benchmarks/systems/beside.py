"""Live beside virtual: one table and one figure of the small environment."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from benchmarks.systems.live import DDP, STANDS_FOR_DDP, TARGET, WORLDS, Beside
from benchmarks.systems.tables import seconds
from benchmarks.systems.trial import AFTER_S, Ran
from e2c_dl.report import colours
from e2c_dl.report.plots.paper import panels, save, styled

FIGURE = "systems-live.png"
WIDE_IN, HIGH_IN = 7.0, 3.2
_LINES = {"live": "solid", "virtual": (0, (4, 1.5))}


def table(beside: Beside) -> str:
    """A row per system: time to the target, accuracy after a while, bytes until the target; live, then virtual."""
    head = (
        f"Three hosts, one seed: seconds to {TARGET:.0%} of the first worker's own model, its accuracy after "
        f"{AFTER_S:g} s, MB sent until {TARGET:.0%}, iterations of a worker per second. {DDP} has no virtual side: "
        f"`{STANDS_FOR_DDP}` stands for it there. Its bytes are those of frames, headers included; others' are of "
        "messages."
    )
    lines = [
        head,
        "",
        "| system | live | virtual |",
        "|---|---|---|",
        *(f"| {name} | {' | '.join(_cell(_in(beside, name, world)) for world in WORLDS)} |" for name in beside.rows),
    ]
    return "\n".join(lines)


def missed(beside: Beside) -> list[str]:
    """Runs that failed, and the order of systems, if it is not the same live as virtual, by accuracy after a while."""
    found = list(beside.problems)
    both = [name for name in beside.systems if all(beside.of(name, world) for world in WORLDS)]
    orders = [_by_accuracy(beside, both, world) for world in WORLDS]
    if orders[0] != orders[1]:
        found.append("; ".join(f"{world}: {', '.join(order)}" for world, order in zip(WORLDS, orders, strict=True)))
    return found


@styled
def figure(beside: Beside, folder: Path) -> Path:
    """Accuracy over time: live solid, virtual dashed; written to ``folder``."""
    drawn, (axes,) = panels(WIDE_IN, [HIGH_IN])
    for place, name in enumerate(beside.rows):
        for world in WORLDS:
            came = beside.of(name, world)
            if came is not None and came.curve:
                axes.plot(
                    *zip(*came.curve, strict=True), label=f"{name}, {world}", linestyle=_LINES[world],
                    color=colours.SERIES[place % len(colours.SERIES)],
                )  # fmt: skip
    axes.axhline(TARGET, color="grey", linewidth=0.5)
    axes.set(xlabel="seconds", ylabel="accuracy")
    axes.grid()
    axes.legend(loc="upper left", bbox_to_anchor=(1.0, 1.0))
    save(drawn, folder / FIGURE)
    return folder / FIGURE


def _in(beside: Beside, name: str, world: str) -> Ran | None:
    return beside.of(STANDS_FOR_DDP if (name, world) == (DDP, "virtual") else name, world)


def _by_accuracy(beside: Beside, names: Sequence[str], world: str) -> list[str]:
    accuracies = {name: came.accuracy for name in names if (came := beside.of(name, world)) is not None}
    return sorted(accuracies, key=lambda name: -accuracies[name])


def _cell(came: Ran | None) -> str:
    if came is None:
        return ""
    sent = "" if came.bytes_to_target is None else f", {came.bytes_to_target / 1e6:,.0f} MB"
    lasted_s = came.curve[-1][0] if came.curve else 0.0
    pace = f", {max(came.iterations) / lasted_s:.2g} /s" if lasted_s else ""
    reached = "-" if came.reached_s is None else f"{seconds(came.reached_s)} s"
    return f"{reached}, {came.accuracy:.0%}{sent}{pace}"
