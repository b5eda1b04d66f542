"""Style sheet and scripts of the page, from web/: embedded, nothing is fetched. Colours are those of every figure."""

from __future__ import annotations

from collections.abc import Mapping
from functools import cache
from importlib import resources

from e2c_dl.report import colours

SCRIPTS = ("packed.js", "line.js", "timeline.js", "heat.js", "page.js")
"""In the order in which they need each other."""


def css() -> str:
    """The style sheet: every colour as a variable, light and dark, then the rules."""
    light, dark = _variables({}, colours.HEAT), _variables(colours.DARK, colours.DARK_HEAT)
    return (
        f":root {{ {light} }}\n"
        f"@media (prefers-color-scheme: dark) {{ :root:not([data-theme=light]) {{ {dark} }} }}\n"
        f":root[data-theme=dark] {{ {dark} }}\n{_file('page.css')}"
    )


def script() -> str:
    """All scripts as one, which leaves no names behind."""
    return '(function () {\n"use strict";\n' + "\n".join(map(_file, SCRIPTS)) + "\n})();"


def _variables(instead: Mapping[str, str], heat: tuple[str, ...]) -> str:
    """``--state-0: ...`` for every meaning; ``instead`` of a colour stands another."""
    named = {f"state-{code}": colour for code, colour in enumerate(colours.STATES.values())}
    named |= {f"phase-{int(phase)}": colour for phase, colour in colours.PHASES.items()}
    named |= {"message": colours.MESSAGE, "culprit": colours.CULPRIT, "mark": colours.MARK}
    named |= {f"heat-{step}": colour for step, colour in enumerate(heat)}
    return " ".join(f"--{name}: {instead.get(colour, colour)};" for name, colour in named.items())


@cache
def _file(name: str) -> str:
    return resources.files(__package__).joinpath("web").joinpath(name).read_text(encoding="utf-8")
