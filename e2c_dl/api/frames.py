"""Tables of Arrow as the DataFrames that a user works with."""

from __future__ import annotations

import importlib
from collections.abc import Callable, Mapping
from types import MappingProxyType
from typing import Any

import pyarrow as pa

from e2c_dl.errors import InputError

DataFrame = Any
"""A pandas.DataFrame, a polars.DataFrame or a pyarrow.Table: which, the user says; none of the first two is needed."""


def _pandas(table: pa.Table) -> DataFrame:
    pandas = _imported("pandas")
    # Whole numbers that may be missing stay whole numbers, and names stay dictionary-encoded.
    return table.to_pandas(types_mapper=lambda kind: None if pa.types.is_dictionary(kind) else pandas.ArrowDtype(kind))


def _polars(table: pa.Table) -> DataFrame:
    return _imported("polars").from_arrow(table)


_MAKERS: Mapping[str, Callable[[pa.Table], DataFrame]] = MappingProxyType(
    {"pandas": _pandas, "polars": _polars, "arrow": lambda table: table}
)


def maker(name: str) -> Callable[[pa.Table], DataFrame]:
    """What turns a table into a DataFrame of the library ``name``. Raises: InputError: it is none, or not installed."""
    if name not in _MAKERS:
        raise InputError(f"frames {name!r} are not known; write {', '.join(_MAKERS)}")
    if name != "arrow":
        _imported(name)
    return _MAKERS[name]


def _imported(name: str) -> Any:
    try:
        return importlib.import_module(name)
    except ImportError as error:
        raise InputError(f"{name} is not installed; install it, or load(..., frames='arrow')") from error
