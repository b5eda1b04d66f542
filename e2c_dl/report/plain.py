"""A Report as JSON, for programs: the dataclasses' field names, enums by value, seconds and bits per second throughout.

Numbers that JSON cannot write (infinite, not a number) become null.
"""

from __future__ import annotations

import dataclasses
import json
import math
from collections.abc import Mapping
from enum import Enum
from typing import Any

from e2c_dl.diagnosis.model import Report


def to_json(report: Report) -> str:
    """``report`` as the text of report.json."""
    return json.dumps(_plain(report), indent=2, ensure_ascii=False, allow_nan=False) + "\n"


def _plain(value: Any) -> Any:
    if dataclasses.is_dataclass(value):
        return {field.name: _plain(getattr(value, field.name)) for field in dataclasses.fields(value)}
    if isinstance(value, Enum):
        return value.value
    if isinstance(value, Mapping):
        return {str(_plain(key)): _plain(item) for key, item in value.items()}
    if isinstance(value, (list, tuple)):
        return [_plain(item) for item in value]
    if isinstance(value, float) and not math.isfinite(value):
        return None
    return value
