"""What figures for papers have alike: width, type, lines, and how they are written.

A column of a two-column paper is 3.33 inches. Type is 7 to 8 points, DejaVu Sans, which comes with matplotlib;
fonts are embedded as TrueType (Type 42: publishers refuse Type 3). No date, version or random name is written: the same
runs give the same bytes with the same matplotlib. There is no title: captions stand in the paper.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from functools import wraps
from io import BytesIO
from pathlib import Path
from typing import Any, ParamSpec, TypeVar

import matplotlib as mpl
from matplotlib.figure import Figure

from e2c_dl import formatting
from e2c_dl.atomic_write import written
from e2c_dl.errors import InputError

WIDTH_IN = 3.33
TALLEST_IN = 9.0  # a page
DPI = 300  # of PNG, and of the pictures inside of vector figures
SCREEN_DPI = 150  # in a notebook

INK, SOFT, FAINT = "#1b1f24", "#59636e", "#d5d9de"

STYLE: Any = {
    "font.family": "DejaVu Sans", "font.size": 7, "axes.labelsize": 8, "legend.fontsize": 7,
    "xtick.labelsize": 7, "ytick.labelsize": 7, "mathtext.fontset": "dejavusans",
    "axes.linewidth": 0.6, "axes.edgecolor": SOFT, "axes.labelcolor": INK, "text.color": INK,
    "axes.spines.top": False, "axes.spines.right": False, "axes.axisbelow": True,
    "xtick.color": SOFT, "ytick.color": SOFT, "xtick.labelcolor": INK, "ytick.labelcolor": INK,
    "xtick.major.width": 0.6, "ytick.major.width": 0.6, "xtick.major.size": 2.5, "ytick.major.size": 2.5,
    "grid.color": FAINT, "grid.linewidth": 0.4, "lines.linewidth": 1.2, "lines.markersize": 3,
    "legend.frameon": False, "legend.handlelength": 1.2, "legend.columnspacing": 1.0, "legend.handletextpad": 0.4,
    "legend.borderaxespad": 0.2, "figure.constrained_layout.h_pad": 0.02, "figure.constrained_layout.w_pad": 0.02,
    "pdf.fonttype": 42, "ps.fonttype": 42, "pdf.compression": 9, "svg.fonttype": "path", "svg.hashsalt": "e2c_dl",
}  # fmt: skip

_WITHOUT_DATES: Mapping[str, Mapping[str, Any]] = {
    ".pdf": {"CreationDate": None, "Creator": None, "Producer": None},
    ".svg": {"Date": None, "Creator": None},
    ".png": {"Software": None},
}

P = ParamSpec("P")
R = TypeVar("R")


def styled(draw: Callable[P, R]) -> Callable[P, R]:
    """``draw`` in the style of all figures, whatever the user's own is."""

    @wraps(draw)
    def drawn(*args: P.args, **kwargs: P.kwargs) -> R:
        with mpl.rc_context():
            mpl.rcdefaults()
            mpl.rcParams.update(STYLE)
            return draw(*args, **kwargs)

    return drawn


class PaperFigure(Figure):
    """A figure in the style of all, which a notebook shows by itself."""

    def _repr_png_(self) -> bytes:
        content = BytesIO()
        _write(self, content, ".png", SCREEN_DPI)
        return content.getvalue()


def panels(width_in: float, heights_in: Sequence[float], **shared: Any) -> tuple[Figure, list[Any]]:
    """A figure and its axes below each other, of these heights, or of a page's where that would be more."""
    height = min(TALLEST_IN, sum(heights_in))
    figure = PaperFigure(figsize=(width_in, height), layout="constrained")
    axes = figure.subplots(len(heights_in), 1, squeeze=False, height_ratios=list(heights_in), **shared)
    return figure, list(axes[:, 0])


def save(figure: Figure, path: Path) -> None:
    """``path`` shows ``figure``, as its suffix says. Raises: InputError for another; ArchiveError if not writable."""
    check(path)
    with written(path) as place:
        _write(figure, place, path.suffix.lower())


def check(path: Path) -> None:
    """Does nothing. Raises: InputError, if figures are not written with such a suffix, or its folder is not there."""
    if path.suffix.lower() not in _WITHOUT_DATES:
        raise InputError(f"{path}: figures are written as {', '.join(_WITHOUT_DATES)}; choose one of these endings")
    if not path.parent.is_dir():
        raise InputError(f"{path}: there is no folder {path.parent}; make it first")


@styled
def _write(figure: Figure, place: Path | BytesIO, suffix: str, dpi: int = DPI) -> None:
    figure.savefig(place, format=suffix[1:], dpi=dpi, metadata=dict(_WITHOUT_DATES[suffix]))


def literal(text: str) -> str:
    """``text`` as it is: a dollar sign would begin mathematics, and an archive may hold any character."""
    return formatting.visible(text, breaks="").replace("$", r"\$").replace("->", "→")


def unit_of(longest_s: float) -> tuple[float, str]:
    """What an axis that reaches to ``longest_s`` seconds counts in: (how many of it are a second, its name)."""
    return (1.0, "s") if longest_s >= 1 else (1e3, "ms")


def every(count: int, most: int) -> int:
    """Of ``count`` labels every how many-th is written, so that at most ``most`` are."""
    return -(-count // most)
