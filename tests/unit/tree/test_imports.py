"""No circles of imports, not even of those that only types need."""

import ast
import subprocess
import sys
from pathlib import Path

import e2c_dl


def imports(repository: Path) -> dict[str, set[str]]:
    """Module -> modules of the package that it imports, wherever in it: in functions and under TYPE_CHECKING too."""
    files = {}
    for path in (repository / "e2c_dl").rglob("*.py"):
        parts = path.relative_to(repository).with_suffix("").parts
        files[".".join(parts[:-1] if parts[-1] == "__init__" else parts)] = path
    return {name: {each for each in _imported(path, files) if each != name} for name, path in files.items()}


def _imported(path: Path, known: dict[str, Path]) -> set[str]:
    found = set()
    for node in ast.walk(ast.parse(path.read_text())):
        if isinstance(node, ast.Import):
            found |= {alias.name for alias in node.names}
        elif isinstance(node, ast.ImportFrom):
            whole = {f"{node.module}.{alias.name}" for alias in node.names}
            found |= (whole & known.keys()) or {str(node.module)}
    return found & known.keys()


def circles(graph: dict[str, set[str]]) -> list[str]:
    """Modules that are on a circle, or between two: what is left when all are taken away that end nowhere in it."""
    left = dict(graph)
    while leaves := {name for name, of in left.items() if not of & left.keys()}:
        left = {name: of for name, of in left.items() if name not in leaves}
    while roots := left.keys() - {each for of in left.values() for each in of}:
        left = {name: of for name, of in left.items() if name not in roots}
    return sorted(left)


def test_circles_are_found() -> None:
    assert circles({"a": {"b"}, "b": {"c"}, "c": {"b", "d"}, "d": set()}) == ["b", "c"]


def test_no_circles_of_imports_even_for_types(repository: Path) -> None:
    graph = imports(repository)
    assert sum(map(len, graph.values())) > len(graph)
    assert circles(graph) == []


def test_the_package_is_found_in_a_folder_that_holds_a_clone_of_its_name(tmp_path: Path) -> None:
    """As in a home where somebody cloned it: workers are started there."""
    (tmp_path / "e2c_dl").mkdir()
    asked = [sys.executable, "-c", "import e2c_dl; print(e2c_dl.__version__)"]
    done = subprocess.run(asked, cwd=tmp_path, capture_output=True, text=True, check=False)
    assert done.stdout.strip() == e2c_dl.__version__, f"{done.stderr}: run `make setup` again"
