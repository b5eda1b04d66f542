"""Notebooks without Jupyter: their code cells run in order in one namespace, as a kernel does, and what they show.

``python tests/notebooks.py docs/notebook.ipynb experiments/first-light FOLDER`` makes the runs of that scenario in
FOLDER, runs the notebook there, and stores what it shows.
"""

from __future__ import annotations

import ast
import base64
import io
import json
import os
import pprint
import sys
from pathlib import Path
from typing import Any

from simulated_scenario import Quiet

from e2c_dl.campaign.simulated import SimulationRequest, run

Cell = dict[str, Any]


def code_cells(notebook: Cell) -> list[Cell]:
    return [cell for cell in notebook["cells"] if cell["cell_type"] == "code"]


def executed(notebook: Cell, folder: Path) -> list[Any]:
    """The value that each code cell ends with, None of one that does not, as run in ``folder``."""
    names: dict[str, Any] = {"__name__": "__main__"}
    before = Path.cwd()
    os.chdir(folder)
    try:
        return [_value("".join(cell["source"]), names) for cell in code_cells(notebook)]
    finally:
        os.chdir(before)


def _value(source: str, names: dict[str, Any]) -> Any:
    """What the cell ``source`` ends with, which runs in ``names``."""
    parsed = ast.parse(source)
    *before, last = parsed.body
    if not isinstance(last, ast.Expr):
        exec(compile(parsed, "<cell>", "exec"), names)
        return None
    exec(compile(ast.Module(body=before, type_ignores=[]), "<cell>", "exec"), names)
    return eval(compile(ast.Expression(body=last.value), "<cell>", "eval"), names)


def shown(value: Any, number: int) -> list[Cell]:
    """A cell's outputs for ``value``: a picture, or text."""
    if value is None:
        return []
    data = {"text/plain": pprint.pformat(value, width=100, sort_dicts=False).splitlines(keepends=True)}
    if hasattr(value, "savefig"):
        data = {"image/png": base64.b64encode(_png(value)).decode(), "text/plain": ["<Figure>"]}
    return [{"output_type": "execute_result", "execution_count": number, "metadata": {}, "data": data}]


def _png(figure: Any) -> bytes:
    """``figure`` as a notebook shows it: as it draws itself, else as matplotlib does, small."""
    if hasattr(figure, "_repr_png_"):
        return bytes(figure._repr_png_())
    place = io.BytesIO()
    figure.savefig(place, format="png", dpi=72, bbox_inches="tight", metadata={"Software": None})
    return place.getvalue()


def make_runs(scenario: Path, folder: Path) -> None:
    """runs/slowed and runs/healthy in ``folder``, as the notebook's first cell tells to make them."""
    for name, healthy in (("slowed", False), ("healthy", True)):
        archive = folder / "runs" / name
        run(SimulationRequest(scenario=scenario, archive=archive, shapes_only=True, healthy=healthy), Quiet())


def main(path: Path, scenario: Path, folder: Path) -> None:
    make_runs(scenario.resolve(), folder.resolve())
    notebook = json.loads(path.read_text())
    values = executed(notebook, folder)
    for number, (cell, value) in enumerate(zip(code_cells(notebook), values, strict=True), start=1):
        cell["execution_count"], cell["outputs"] = number, shown(value, number)
    path.write_text(json.dumps(notebook, indent=1, ensure_ascii=False) + "\n")


if __name__ == "__main__":
    main(*map(Path, sys.argv[1:]))
