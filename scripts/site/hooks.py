"""What MkDocs asks for while it builds the site: pages from outside of docs/, the navigation's rest, links.

Pages are written to be read in the repository, too, so their links are to files: ``../benchmarks/README.md``. Here each
becomes a link to the page that was made of the file; to the file where the project is published, if that is known
(``E2CDL_HOME_URL``, else git's origin); else plain text. A link to nothing is left as it is, for MkDocs to refuse.
"""

from __future__ import annotations

import os
import re
import sys
from pathlib import Path, PurePosixPath

from mkdocs.config.defaults import MkDocsConfig
from mkdocs.structure.files import File, Files
from mkdocs.structure.pages import Page

ROOT = Path(__file__).resolve().parents[2]
sys.path[:0] = [str(ROOT), str(Path(__file__).resolve().parent)]

import home  # noqa: E402  (beside this file)
import keys  # noqa: E402
import notebook  # noqa: E402

OUTSIDE = {"README.md": "index.md", "CHANGELOG.md": "CHANGELOG.md", "CONTRIBUTING.md": "CONTRIBUTING.md"}
NOTEBOOK = "docs/notebook.ipynb"
FOLDERS = {"experiments": "Experiments", "benchmarks": "Benchmarks"}
_LINK = re.compile(r"(!?)\[((?:[^\[\]]|\[[^\[\]]*\])*)\]\(([^()\s]+)\)")
_CODE = re.compile(r"(^```.*?^```[^\n]*$|``[^\n]*?``|`[^`\n]*`)", re.MULTILINE | re.DOTALL)


def sources() -> dict[str, str]:
    """File of the repository -> page of the site, of all that does not stand in docs/."""
    found = dict(OUTSIDE)
    for folder in FOLDERS:
        for path in sorted((ROOT / folder).rglob("*.md")):
            inside = path.relative_to(ROOT)
            found[inside.as_posix()] = inside.with_name(inside.name.replace("README", "index")).as_posix()
    return {name: page for name, page in found.items() if (ROOT / name).is_file()}


def on_files(files: Files, config: MkDocsConfig) -> Files:
    """Adds the pages from outside, what is made of the code, and pictures beside them."""
    for name, page in sources().items():
        if files.get_file_from_path(page) is None:
            files.append(File.generated(config, page, content=(ROOT / name).read_text(encoding="utf-8")))
    files.append(File.generated(config, "reference/keys.md", content=keys.page()))
    files.append(File.generated(config, "notebook.md", content=notebook.page(ROOT / NOTEBOOK)))
    _complete(config, files)
    return files


def _complete(config: MkDocsConfig, files: Files) -> None:
    """Puts under "Subjects" what of docs/ is named nowhere, and the experiments and benchmarks under theirs."""
    assert config.nav is not None
    sections = {title: pages for entry in config.nav for title, pages in entry.items()}
    named = {page if isinstance(page, str) else next(iter(page.values()))
             for pages in sections.values() for page in ([pages] if isinstance(pages, str) else pages)}  # fmt: skip
    every = sorted(file.src_uri for file in files.documentation_pages())
    for folder, title in FOLDERS.items():
        sections[title] += [page for page in every if page.startswith(f"{folder}/")]
    sections["Subjects"] += [page for page in every if page not in named and not page.startswith(tuple(FOLDERS))]


def on_page_markdown(markdown: str, page: Page, config: MkDocsConfig, files: Files) -> str:
    """The text of ``page`` with its links as the site needs them; what stands in code is left as it is."""
    origin = {site: name for name, site in sources().items()}.get(page.file.src_uri, f"docs/{page.file.src_uri}")
    parts = _CODE.split(markdown)
    # Links whose text has code in it are split: code is put out of the way by numbers.
    code = parts[1::2]
    text = "".join(part if number % 2 == 0 else f"\0{number // 2}\0" for number, part in enumerate(parts))
    text = _LINK.sub(lambda found: _linked(found, origin, page.file.src_uri, files), text)
    return re.sub("\0(\\d+)\0", lambda found: code[int(found[1])], text)


def _linked(found: re.Match[str], origin: str, here: str, files: Files) -> str:
    picture, text, target = found.groups()
    if re.match(r"[a-z]+:|#", target):
        return found[0]
    name, _, anchor = target.partition("#")
    file = os.path.normpath(PurePosixPath(origin).parent / name)
    site = page_of(file)
    if files.get_file_from_path(site) is not None:
        relative = os.path.relpath(site, PurePosixPath(here).parent)
        return f"{picture}[{text}]({relative}{'#' + anchor if anchor else ''})"
    if not (ROOT / file).exists():
        return found[0]
    published = home.of(file)
    return f"[{text}]({published})" if published else text


def page_of(file: str) -> str:
    """The page, or the file of the site, that ``file`` of the repository would be."""
    return "notebook.md" if file == NOTEBOOK else sources().get(file, file.removeprefix("docs/"))


def on_config(config: MkDocsConfig) -> MkDocsConfig:
    """Names the project's home, if it is known, and has no page fetch a script from elsewhere: docs/site.js does it."""
    config.repo_url = home.url() or None
    config.extra["polyfills"] = []
    return config


def on_page_content(html: str, **_: object) -> str:
    """The page without what newer click calls a default that nobody set."""
    return html.replace("<code>Sentinel.UNSET</code>", "")


def on_post_page(output: str, page: Page, config: MkDocsConfig) -> str:
    """The page with docs/site.js before the theme's own script, which looks for a worker as it begins."""
    script = os.path.relpath("site.js", PurePosixPath(page.file.dest_uri).parent)
    return output.replace("</head>", f'<script src="{script}"></script></head>', 1)
