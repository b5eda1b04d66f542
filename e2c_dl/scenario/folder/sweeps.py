"""Tasks of a workflow that begin a sweep of Weights & Biases: told beforehand, as no host of a laptop's need reach it.

A task begins one by its own command, or by a script of the scenario's folder that it starts by name.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from pathlib import Path

from e2c_dl.scenario.documents.document import Document
from e2c_dl.scenario.documents.field import Field
from e2c_dl.scenario.folder.secret_values import text_of
from e2c_dl.scenario.workflow import STEPS

BEGINS = re.compile(r"\bwandb\s+(?:agent|sweep)\b")
_SENDS = re.compile(r"\b(?:copy|synchronize|template|fetch)$")
_STARTS = r"(?<![\w-]){}(?![\w.-])"


def sweeps(workflow: Document | None, folder: Path) -> tuple[str, ...]:
    """A sentence for each task of ``workflow``, in ``folder``, that cannot work offline: where, which task, why."""
    if workflow is None:
        return ()
    scripts = {file.name for file in folder.glob("*.sh") if BEGINS.search(_code(text_of(file)))}
    return tuple(
        f"{workflow.file}:{workflow.line(task.path)}: {_named(task)} cannot work offline: {why}"
        for task in _tasks(Field(document=workflow, value=workflow.value))
        if (why := _begun(task, scripts)) is not None
    )


def _tasks(workflow: Field) -> Iterator[Field]:
    for play in workflow.items():
        fields = play.fields()
        for step in STEPS:
            yield from fields[step].items() if step in fields else ()


def _begun(task: Field, scripts: set[str]) -> str | None:
    said = {key: value for key, value in task.fields().items() if key != "name" and not _SENDS.search(key)}
    text = json.dumps([value.value for value in said.values()], default=str)
    what = "it begins a sweep of Weights & Biases, which needs the internet, and an account there"
    if BEGINS.search(text):
        return what
    named = [name for name in sorted(scripts) if re.search(_STARTS.format(re.escape(name)), text)]
    return f"by {named[0]}, {what}" if named else None


def _named(task: Field) -> str:
    """The task as E2Clab's output calls it."""
    fields = task.fields()
    name = fields.get("name")
    return f"task {str(name.value) if name is not None else next(iter(fields), '')!r}"


def _code(text: str) -> str:
    return "\n".join(line for line in text.splitlines() if not line.lstrip().startswith("#"))
