"""What setup.cfg cannot say: README with absolute links, and where the project is published, as far as that is known.

An index shows README by itself, where links to files beside it lead nowhere. See scripts/site/home.py.
"""

from __future__ import annotations

import re
import sys
from pathlib import Path

from setuptools import setup

ROOT = Path(__file__).resolve().parent
sys.path.insert(0, str(ROOT / "scripts" / "site"))

import home  # noqa: E402

_LINK = re.compile(r"(!?)\[((?:[^\[\]]|\[[^\[\]]*\])*)\]\((?![a-z]+:|#)([^()\s#]+)(#[^()\s]*)?\)")


def absolute(text: str, url: str) -> str:
    """``text`` with every link to a file of the tree absolute, below ``url``."""
    return _LINK.sub(
        lambda link: f"{link[1]}[{link[2]}]({(home.raw if link[1] else home.of)(link[3], url)}{link[4] or ''})",
        text,
    )


def published() -> dict[str, object]:
    """Arguments for setuptools; none where nobody knows the project's home."""
    url = home.url()
    if not url:
        return {}
    places = {"Source": url, "Documentation": home.of("docs", url), "Changelog": home.of("CHANGELOG.md", url),
              "Issues": f"{url}{'/-' if 'gitlab' in url else ''}/issues"}  # fmt: skip
    readme = absolute((ROOT / "README.md").read_text(encoding="utf-8"), url)
    return {"url": url, "project_urls": places, "long_description": readme}


if __name__ == "__main__":
    setup(**published())
