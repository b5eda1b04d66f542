"""A scenario's own code: the folder ``code/`` beside its YAML, which goes to every host; what an import path leads to.

::

    my-scenario/layers_services.yaml     model: my_net:Net        dataset: my_data.digits:Noisy
                code/my_net.py           class Net(torch.nn.Module): ...
                code/my_data/digits.py   class Noisy(torch.utils.data.Dataset): ...

Whether a path leads anywhere is read, not run: the module is looked up in ``code/``, else where it is installed, and
its text is searched for the name. What a module makes up while it is imported cannot be told so, and is believed.
"""

from __future__ import annotations

import ast
import difflib
import importlib.machinery
import importlib.util
import os
import stat
from collections.abc import Iterator, Sequence
from pathlib import Path

from e2c_dl.errors import ScenarioError
from e2c_dl.scenario.data import is_import_path, parse_dataset
from e2c_dl.scenario.model import Training

CODE = "code"
MAX_BYTES = 16 * 2**20  # of all of it: each host gets a copy
_CACHES = "__pycache__"


def folder(scenario: Path) -> str | None:
    """The folder of own code of the scenario in ``scenario``, as an absolute path; None if it has none."""
    place = scenario / CODE
    return os.path.abspath(place) if os.path.isdir(place) and not os.path.islink(place) else None


def files(scenario: Path) -> tuple[Path, ...]:
    """The files of the own code of the scenario in ``scenario``, by name; caches and hidden files are left out.

    Raises: ScenarioError, if one is a link or no file, or all together are too large.
    """
    if not os.path.lexists(scenario / CODE):
        return ()
    found = tuple(_below(scenario / CODE, scenario))
    size = sum(file.stat().st_size for file in found)
    if size > MAX_BYTES:
        what = f"holds {size >> 20} MiB, and at most {MAX_BYTES >> 20} MiB go to every host"
        raise ScenarioError(CODE, "", what, "keep data elsewhere: data_dir names a folder on the hosts")
    return found


def unresolved(training: Training, scenario: Path, *, where: str, elsewhere: bool) -> Iterator[ScenarioError]:
    """What the import paths of ``training`` name and is not there; ``where``: the file that says them.

    ``elsewhere``: hosts may have installed what this machine has not; then only what stands in ``code/`` is told.
    """
    source = parse_dataset(training.dataset)
    for key, path in (("model", training.model), ("dataset", source.import_path)):
        if is_import_path(path) and not (elsewhere and not _is_own(path, folder(scenario))):
            wrong = problem(path, scenario)
            if wrong is not None:
                yield ScenarioError(where, f"env.{key}", f"{path}: {wrong[0]}", wrong[1])


def problem(path: str, scenario: Path) -> tuple[str, str] | None:
    """What is wrong with the import path ``module:attribute`` and what to do about it; None: nothing that can be read.

    No module is imported for it.
    """
    module, _, attribute = path.partition(":")
    spec = _spec(module, folder(scenario))
    if spec is None:
        what = f"module {module} is neither in the scenario's folder {CODE}/ nor installed here"
        return what, f"put it there as {CODE}/{module.replace('.', '/')}.py"
    if spec.origin is None or not spec.origin.endswith(".py"):
        return None  # compiled, built in or a namespace: there is no text to read
    try:
        tree = ast.parse(Path(spec.origin).read_bytes(), filename=spec.origin)
    except SyntaxError as error:
        return f"module {module} is no Python at line {error.lineno}: {error.msg}", f"correct {spec.origin}"
    except (OSError, ValueError) as error:
        return f"module {module} cannot be read: {error}", f"correct {spec.origin}"
    names = set(_names(tree.body))
    if attribute in names or names & {"*", "__getattr__"}:  # made up while it is imported: cannot be told
        return None
    close = difflib.get_close_matches(attribute, sorted(names), n=1) or sorted(names)[:1] or ["NAME"]
    return f"module {module} has no {attribute}", f"write {module}:{close[0]}, or define it in {spec.origin}"


def _is_own(path: str, own: str | None) -> bool:
    first = path.partition(":")[0].partition(".")[0]
    return own is not None and importlib.machinery.PathFinder.find_spec(first, [own]) is not None


def _below(place: Path, scenario: Path) -> Iterator[Path]:
    mode = place.lstat().st_mode
    if stat.S_ISREG(mode):
        yield place
    elif stat.S_ISDIR(mode):
        for entry in sorted(place.iterdir()):
            if not entry.name.startswith(".") and entry.name != _CACHES:
                yield from _below(entry, scenario)
    else:
        what, remedy = "is a link, or no file", "put the file itself there: it is copied to every host"
        raise ScenarioError(str(place.relative_to(scenario)), "", what, remedy)


def _spec(module: str, own: str | None) -> importlib.machinery.ModuleSpec | None:
    """Where ``module`` stands, found part by part without importing one."""
    importlib.invalidate_caches()  # it may have been written a moment ago
    first, *rest = module.split(".")
    spec = None
    if own is not None:
        spec = importlib.machinery.PathFinder.find_spec(first, [own])
    if spec is None:
        try:
            spec = importlib.util.find_spec(first)  # of a name without dots it imports nothing
        except ValueError:  # a module that was made while this program runs
            spec = None
    for name in rest:
        within: Sequence[str] | None = None if spec is None else spec.submodule_search_locations
        spec = None if within is None else importlib.machinery.PathFinder.find_spec(name, list(within))
    return spec


def _names(body: Sequence[ast.stmt]) -> Iterator[str]:
    """The names that running ``body`` binds, in the module."""
    for each in body:
        match each:
            case ast.FunctionDef() | ast.AsyncFunctionDef() | ast.ClassDef():
                yield each.name
            case ast.Import() | ast.ImportFrom():
                yield from (alias.asname or alias.name.partition(".")[0] for alias in each.names)
            case _:
                yield from (
                    node.id for node in ast.walk(each) if isinstance(node, ast.Name) and isinstance(node.ctx, ast.Store)
                )
                for inner in ("body", "orelse", "finalbody"):
                    yield from _names(getattr(each, inner, ()))
                for handler in getattr(each, "handlers", ()):
                    yield from _names(handler.body)
