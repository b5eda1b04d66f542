"""What strategies say of themselves without running: names, settings, links."""

from __future__ import annotations

import ast
import inspect
from collections.abc import Sequence
from pathlib import Path

import pytest

from e2c_dl import strategies
from e2c_dl.errors import InputError
from e2c_dl.strategies.asyncparameterserver import AsyncParameterServer
from e2c_dl.strategies.base import Setting, Strategy

LAYERS = ("edge", "fog", "edge", "cloud", "edge", "fog")
ALLOWED = {
    "collections", "dataclasses", "e2c_dl", "enum", "itertools", "math", "numpy", "statistics", "typing", "__future__",
    "abc", "functools", "scipy",
}  # fmt: skip
REGISTRY = {"difflib", "importlib", "inspect", "pkgutil", "pathlib", "sys", "types"}


def test_names_are_files_of_algorithms() -> None:
    assert {"adpsgd", "allreduce", "asyncparameterserver", "diloco", "localsgd", "parameterserver"} <= set(
        strategies.names()
    )
    assert not {"base", "batching", "collectives", "__main__"} & set(strategies.names())


@pytest.mark.parametrize("name", strategies.names())
def test_links_are_sorted_pairs_and_bound_those_used(name: str) -> None:
    strategy = strategies.load(name)
    for size in range(1, 9):
        links = list(strategy.links(size))
        used = list(strategy().used_links([LAYERS[rank % 6] for rank in range(size)]))
        assert links == sorted(set(links))
        assert used == sorted(set(used))
        assert set(used) <= set(links)
        assert all(src != dst and 0 <= src < size and 0 <= dst < size for src, dst in links)
        assert bool(used) == (size > 1)


@pytest.mark.parametrize("name", strategies.names())
def test_a_file_tells_its_source_steps_laws_and_differences(name: str) -> None:
    text = " ".join((inspect.getdoc(inspect.getmodule(strategies.load(name))) or "").split())
    assert [
        word for word in ("Source: ", "Idea: ", "1. ", "Laws: ", "Differences from the paper: ") if word not in text
    ] == []


@pytest.mark.parametrize(
    ("name", "settings", "message"),
    [
        ("allreduce", {"tree_below_bytes": -1}, "'allreduce': tree_below_bytes is -1; write 0 or more"),
        ("parameterserver", {"server": -1}, "'parameterserver': server is -1; write"),
        ("asyncparameterserver", {"server": -1}, "'asyncparameterserver': server is -1; write"),
        ("localsgd", {"period": 0}, "'localsgd': period is 0; write 1 or more"),
        ("localsgd", {"period_within": 2}, "period_within is 2, period_between 0; write both"),
        ("localsgd", {"period_within": 2, "period_between": 5}, "write a multiple of period_within, 2"),
        ("localsgd", {"weights": "size"}, "weights is 'size'; write samples or equal"),
        ("diloco", {"outer_momentum": 1.0}, "outer_momentum 1.0; write"),
        ("diloco", {"outer_learning_rate": 0.0}, "outer_learning_rate is 0.0"),
        ("diloco", {"period_between": 4}, "strategy 'diloco': period_within is 0"),
    ],
)
def test_settings_out_of_range_are_refused(name: str, settings: dict[str, Setting], message: str) -> None:
    with pytest.raises(InputError, match=message):
        strategies.load(name)(**settings)


def test_a_strategy_without_settings_says_so() -> None:
    class Bare(AsyncParameterServer):
        name = "bare"
        __init__ = Strategy.__init__

    with pytest.raises(InputError, match="'bare' has no settings; remove period"):
        Bare(period=1)


@pytest.mark.parametrize("name", ["parameterserver", "asyncparameterserver"])
def test_a_server_that_is_no_rank_is_refused(name: str) -> None:
    with pytest.raises(InputError, match=f"{name!r}: server is 4; write a rank from 0 to 3"):
        strategies.load(name)(server=4).used_links(["edge"] * 4)


@pytest.mark.parametrize(
    ("name", "settings", "links"),
    [
        ("allreduce", {}, [(0, 1), (1, 2), (2, 3), (3, 0)]),
        ("allreduce", {"tree_below_bytes": 1}, [(0, 1), (0, 2), (1, 0), (1, 2), (2, 0), (2, 3), (3, 0), (3, 2)]),
        ("asyncparameterserver", {"server": 3}, [(0, 3), (1, 3), (2, 3), (3, 0), (3, 1), (3, 2)]),
        ("parameterserver", {"server": 1}, [(0, 1), (1, 0), (1, 2), (1, 3), (2, 1), (3, 1)]),
        ("localsgd", {"period_within": 1, "period_between": 2}, [(0, 1), (0, 2), (1, 0), (2, 0), (2, 3), (3, 2)]),
        ("adpsgd", {}, [(0, 1), (0, 3), (1, 0), (1, 2), (2, 1), (2, 3), (3, 0), (3, 2)]),
    ],
)
def test_used_links(name: str, settings: dict[str, Setting], links: Sequence[tuple[int, int]]) -> None:
    assert strategies.load(name)(**settings).used_links(["edge", "edge", "fog", "fog"]) == links


def test_strategies_import_what_every_world_can_order(repository: Path) -> None:
    room = repository / "e2c_dl" / "strategies"
    for path in sorted(room.rglob("*.py")):
        nodes = list(ast.walk(ast.parse(path.read_text())))
        found = {alias.name.split(".")[0] for node in nodes if isinstance(node, ast.Import) for alias in node.names}
        found |= {(node.module or "").split(".")[0] for node in nodes if isinstance(node, ast.ImportFrom)}
        registry = REGISTRY if path.name in {"__init__.py", "__main__.py"} else set()
        assert found - ALLOWED - registry == set(), path
