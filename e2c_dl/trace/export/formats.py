"""The formats that a trace is exported in, by name; their modules are imported when one is asked for."""

from __future__ import annotations

import importlib
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from e2c_dl.errors import InputError

if TYPE_CHECKING:
    from e2c_dl.trace.model import Trace


@dataclass(frozen=True, kw_only=True)
class Format:
    """One format. ``module`` has ``write(trace, path)``; ``path`` is a folder where there is a file per rank.

    Where it ``merges``, ``write`` takes other trace events as a third argument.
    """

    module: str
    suffix: str
    about: str
    merges: bool = False


FORMATS = {
    "perfetto": Format(
        module="perfetto",
        suffix=".perfetto.json",
        merges=True,
        about="trace events for ui.perfetto.dev and its trace processor",
    ),
    "chrome": Format(
        module="perfetto",
        suffix=".chrome.json",
        merges=True,
        about="the same events, for chrome://tracing, Speedscope and the like",
    ),
    "chakra": Format(
        module="chakra", suffix=".chakra", about="a folder of Chakra execution traces (MLCommons), one per rank"
    ),
    "otlp": Format(module="otlp", suffix=".otlp.jsonl", about="OpenTelemetry spans (OTLP JSON), 500 of a rank a line"),
    "csv": Format(module="csv", suffix=".csv", about="one row per span, the columns of docs/trace-format.md"),
}


Events = Callable[[int], Iterable[dict[str, Any]]]
"""Trace events, placed so that 0 is the time (reference clock, ns) that it is told."""


def write(name: str, trace: Trace, path: Path, more: Events | None = None) -> None:
    """Write ``trace`` to ``path`` in the format ``name``, with ``more`` events where it merges them.

    Raises: ArchiveError; InputError, if a library is missing.
    """
    try:
        module = importlib.import_module(f"e2c_dl.trace.export.{FORMATS[name].module}")
    except ModuleNotFoundError as error:
        raise InputError(f"--format {name}: {error.name} is not installed; pip install 'e2c_dl[report]'") from error
    if FORMATS[name].merges and more is not None:
        module.write(trace, path, more)
    else:
        module.write(trace, path)
