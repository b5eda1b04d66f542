"""Whether torch, as it is installed here, could compute on the device that a scenario asks for. Nothing is imported."""

from __future__ import annotations

import ast
import importlib.util
from collections.abc import Iterator
from pathlib import Path

from e2c_dl.errors import ScenarioError
from e2c_dl.scenario.model import Training

BUILDS = ("cuda", "hip")  # AMD's answers to CUDA's names


def unavailable(training: Training, *, where: str, elsewhere: bool) -> Iterator[ScenarioError]:
    """What is wrong with the device of ``training``; ``where``: the file that says it; ``elsewhere``: hosts have
    a torch of their own, which says so itself."""
    if training.device == "cpu" or elsewhere:
        return
    spec = importlib.util.find_spec("torch")
    if spec is None or spec.origin is None:
        yield ScenarioError(where, "env.device", "cuda: torch is not installed here", "install a build with CUDA")
        return
    version = _version(Path(spec.origin).with_name("version.py"))
    if not any(version.get(build) for build in BUILDS):
        problem = f"cuda: torch {version.get('__version__', '')} on this machine is built without CUDA"
        yield ScenarioError(where, "env.device", problem, "install a build with it, or write device: cpu")


def _version(file: Path) -> dict[str, object]:
    """Names and plain values that ``file`` assigns; of one that cannot be read what would pass."""
    try:
        tree = ast.parse(file.read_bytes())
    except (OSError, SyntaxError, ValueError):
        return dict.fromkeys(BUILDS, "unknown")
    found: dict[str, object] = {}
    for node in tree.body:
        targets = node.targets if isinstance(node, ast.Assign) else [getattr(node, "target", None)]
        value = getattr(node, "value", None)
        if isinstance(value, ast.Constant):
            found.update({target.id: value.value for target in targets if isinstance(target, ast.Name)})
    return found
