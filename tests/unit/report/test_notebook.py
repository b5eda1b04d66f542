"""The notebook over the Python API runs, and what it shows is stored with it, small."""

import json
from pathlib import Path

import notebooks
import pytest
import simulated_scenario

MOST_BYTES = 110_000
A_SCREEN = 30  # lines


@pytest.fixture(scope="module")
def notebook(repository: Path) -> notebooks.Cell:
    return json.loads((repository / "docs" / "notebook.ipynb").read_text())


def test_its_cells_run(notebook: notebooks.Cell, tmp_path: Path) -> None:
    scenario = simulated_scenario.scenario(tmp_path / "scenario", iterations=12)
    notebooks.make_runs(scenario, tmp_path)
    values = notebooks.executed(notebook, tmp_path)
    assert values[0] == ("finished", ("cloud-1", "edge-1", "edge-2"))
    assert all(value is not None for value in values)
    assert values[-1]._repr_png_().startswith(b"\x89PNG")
    figures = [
        cell for cell, value in zip(notebooks.code_cells(notebook), values, strict=True) if hasattr(value, "savefig")
    ]
    assert len(figures) == 4
    assert sum(len(cell["source"]) for cell in figures[:3]) <= A_SCREEN
    assert (tmp_path / "states.pdf").read_bytes().startswith(b"%PDF")


def test_what_it_shows_is_stored(notebook: notebooks.Cell, repository: Path) -> None:
    assert (repository / "docs" / "notebook.ipynb").stat().st_size < MOST_BYTES
    cells = notebooks.code_cells(notebook)
    assert [cell["execution_count"] for cell in cells] == list(range(1, len(cells) + 1))
    assert all(cell["outputs"] for cell in cells)
    text = "".join(
        text for cell in cells for output in cell["outputs"] for text in output["data"].get("text/plain", ())
    )
    assert "edge-1 -> edge-2" in text and "differs" in text  # of first light, whose slow-downs it names


def test_a_cell_that_fails_fails() -> None:
    broken = {"cells": [{"cell_type": "code", "source": ["1 / 0"]}]}
    with pytest.raises(ZeroDivisionError):
        notebooks.executed(broken, Path())
