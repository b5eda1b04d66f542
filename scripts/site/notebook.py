"""The notebook as a page: its texts, its code, and what it showed when it was last run."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any


def page(path: Path) -> str:
    """Markdown of the notebook at ``path``, pictures in it."""
    cells = json.loads(path.read_text(encoding="utf-8"))["cells"]
    return "\n\n".join(part for cell in cells for part in _of(cell)) + "\n"


def _of(cell: Mapping[str, Any]) -> Iterator[str]:
    source = "".join(cell["source"])
    if cell["cell_type"] == "markdown":
        yield source
        return
    yield f"```python\n{source}\n```"
    for output in cell["outputs"]:
        data = output["data"]
        if "image/png" in data:
            yield f'<img alt="what the lines above draw" src="data:image/png;base64,{data["image/png"].strip()}">'
        else:
            yield f"```\n{''.join(data['text/plain'])}\n```"
