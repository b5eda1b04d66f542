"""Docstrings of the package, as mkdocstrings shows them: ``::`` before a drawing or a call is a colon there.

The package's docstrings are prose for a terminal, in which ``::`` and an indented block mark what is to be read as it
stands. In Markdown the indented block alone does; the marks would be shown. Roles such as ``:class:`` become names.
"""

from __future__ import annotations

import re
from typing import Any

import griffe

_ALONE = re.compile(r"^[ \t]*::[ \t]*\n", re.MULTILINE)
_BEHIND = re.compile(r"(\S)::[ \t]*$", re.MULTILINE)
_ROLE = re.compile(r":(?:class|mod|func|meth|data|attr):`~?([^`]+)`")


def as_markdown(text: str) -> str:
    """``text`` of a docstring as Markdown."""
    text = _BEHIND.sub(r"\1:", _ALONE.sub("", text))
    return _ROLE.sub(r"`\1`", text).replace("``", "`")


class Prose(griffe.Extension):
    """Called by griffe for every object that it has read."""

    def on_instance(self, *, obj: griffe.Object, **_: Any) -> None:
        """Changes the docstring of ``obj`` in place."""
        if obj.docstring is not None:
            obj.docstring.value = as_markdown(obj.docstring.value)
