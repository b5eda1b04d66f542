"""E2Clab's own schemas, asked of a scenario's three files."""

from __future__ import annotations

import importlib
import importlib.util
from pathlib import Path
from typing import Any

import yaml

from e2c_dl.testbeds.e2clab import upstream

_SCHEMAS = {
    "layers_services.yaml": ("layers_services_schema", "LayersServicesValidator"),
    "network.yaml": ("network_schema", "NetworkValidator"),
    "workflow.yaml": ("workflow_schema", "WorkflowValidator"),
}


def refusals(folder: Path) -> tuple[str, ...] | None:
    """What E2Clab's schemas refuse of the scenario in ``folder``, a line each; None where E2Clab is not installed."""
    if importlib.util.find_spec("e2clab") is None:
        return None
    lines = []
    for name, validator in _validators().items():
        value = yaml.safe_load((folder / name).read_text(encoding="utf-8"))
        for error in validator.iter_errors(value):
            place = ".".join(map(str, error.absolute_path))
            lines.append(f"{name}: {place}: {' '.join(error.message.split())[:200]}")
    return tuple(lines)


def _validators() -> dict[str, Any]:
    with upstream.environment(upstream.ANSIBLE_SETTINGS):
        return {
            name: getattr(importlib.import_module(f"e2clab.schemas.{module}"), attribute)
            for name, (module, attribute) in _SCHEMAS.items()
        }
