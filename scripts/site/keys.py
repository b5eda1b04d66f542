"""The page of a scenario's keys, from what this version reads: its commented files, the schema of emulation.yaml."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

from e2c_dl.resources import template_dir
from e2c_dl.scenario.emulation.file import schema

INTRODUCTION = """# Keys of a scenario

Made of the code as it is. The files are those that `e2c-dl init DIR` writes; what is commented out is a key, too.
`e2c-dl check DIR` says what is wrong, by file, line and key.
"""


def page() -> str:
    """The page's Markdown."""
    parts = [INTRODUCTION]
    for name in ("layers_services.yaml", "network.yaml", "workflow.yaml"):
        text = (template_dir() / name).read_text(encoding="utf-8")
        parts.append(f"## {name}\n\n```yaml\n{text.strip()}\n```\n")
    parts.append("## emulation.yaml\n\nWhat each means, with examples: [emulation.yaml](../emulation.md).\n")
    for name, section in schema()["properties"].items():
        rows = [f"| `{key}` | {kind} | {default} | {says} |" for key, kind, default, says in keys(section, name)]
        table = "\n".join(["| key | is | default | |", "|---|---|---|---|", *rows])
        parts.append(f"### {name}\n\n{section.get('description', '')}\n\n{table}\n")
    return "\n".join(parts)


def keys(schema: Mapping[str, Any], path: str) -> Iterator[tuple[str, str, str, str]]:
    """(key, what it is, default, description) of all below ``path``; ``[]`` stands for the entries of a list."""
    for name, inner in schema.get("properties", {}).items():
        own = f"{path}.{name}"
        default = f"`{_spelled(inner['default'])}`" if "default" in inner else ""
        yield own, kind(inner), default, _cell(inner.get("description", ""))
        yield from keys(inner, own)
    if isinstance(schema.get("items"), Mapping):
        yield from keys(schema["items"], f"{path}[]")
    for choice in (*schema.get("oneOf", ()), *schema.get("anyOf", ())):
        yield from keys(choice, path)


def kind(schema: Mapping[str, Any]) -> str:
    """What a value may be, in words."""
    if "enum" in schema:
        return _cell(" or ".join(f"`{_spelled(each)}`" for each in schema["enum"]))
    kinds = schema.get("type", "")
    return " or ".join([kinds] if isinstance(kinds, str) else kinds)


def _spelled(value: Any) -> str:
    return {None: "null", True: "true", False: "false"}.get(value, str(value)) if not isinstance(value, list) else "[]"


def _cell(text: str) -> str:
    return text.replace("|", "\\|").replace("\n", " ")
