"""The site builds without a network or a warning; every command, option, public name and page is in it."""

from __future__ import annotations

import html
import importlib
import inspect
import os
import re
import shutil
import subprocess
import sys
from pathlib import Path

import click
import pytest

import e2c_dl
from e2c_dl.cli.main import COMMANDS, find

CHROMIUM = shutil.which("chromium")
PUBLIC = ("e2c_dl.api", "e2c_dl.tracing", "e2c_dl.errors", "e2c_dl.diagnosis.model", "e2c_dl.strategies.base",
          "e2c_dl.testbeds.base", "e2c_dl.archive.read")  # fmt: skip
NO_NETWORK = dict.fromkeys(("http_proxy", "https_proxy", "HTTP_PROXY", "HTTPS_PROXY"), "http://127.0.0.1:9")


@pytest.fixture(scope="module")
def site(repository: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("site")
    build = [sys.executable, "-m", "mkdocs", "build", "--quiet", "--strict", "--site-dir", str(folder)]
    environment = {**os.environ, **NO_NETWORK, "NO_MKDOCS_2_WARNING": "1", "E2CDL_HOME_URL": ""}
    done = subprocess.run(build, cwd=repository, env=environment, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr + done.stdout
    return folder


def text(path: Path) -> str:
    return html.unescape(re.sub(r"<[^>]+>", "", path.read_text(encoding="utf-8")))


def test_every_page_of_docs_is_in_the_navigation(site: Path, repository: Path) -> None:
    index = (site / "index.html").read_text(encoding="utf-8")
    linked = set(
        re.findall(r'class="md-nav__link"[^>]*href="?([^" >]+)|href="?([^" >#]+)"? class="md-nav__link', index)
    )
    named = {name for pair in linked for name in pair if name}
    docs = repository / "docs"
    pages = {path.relative_to(docs).with_suffix(".html").as_posix() for path in docs.rglob("*.md")}
    assert pages - named == set()


def test_every_command_and_option_is_on_a_page(site: Path) -> None:
    page = text(site / "reference/commands.html")
    commands = {name: find(name) for name in COMMANDS}
    assert [name for name in commands if f"e2c-dl {name}" not in page and f"{name}¶" not in page] == []
    options = [
        option
        for command in commands.values()
        for inner in (command, *(command.commands.values() if isinstance(command, click.Group) else ()))
        for param in inner.params
        if isinstance(param, click.Option) and not param.hidden
        for option in param.opts
    ]
    assert [option for option in options if option not in page] == []


def test_every_public_name_is_on_a_page(site: Path) -> None:
    page = (site / "reference/python.html").read_text(encoding="utf-8")
    shown = set(re.findall(r'id="?([\w.]+)', page))
    missing = []
    for name in PUBLIC:
        module = importlib.import_module(name)
        own = getattr(module, "__all__", None) or [
            each
            for each, value in vars(module).items()
            if not each.startswith("_")
            and (inspect.isclass(value) or inspect.isfunction(value))
            and value.__module__ == name
        ]
        missing += [f"{name}.{each}" for each in own if not any(known.endswith(f".{each}") for known in shown)]
    assert missing == []
    assert {"e2c_dl.api.load", "e2c_dl.api.ArchivedRun.spans", "e2c_dl.errors.InputError"} <= shown
    assert set(e2c_dl.__dir__()) >= {"load", "simulate", "deploy", "ArchivedRun"}


def test_every_key_of_emulation_is_on_a_page(site: Path) -> None:
    page = text(site / "reference/keys.html")
    for key in ("compute.factors", "links[].burst.good_to_bad", "injected.faults[]", "tcp.congestion_control"):
        assert key in page, key


def test_nothing_is_fetched_and_no_link_leads_out_of_the_site(site: Path) -> None:
    for path in site.rglob("*.html"):
        page = path.read_text(encoding="utf-8")
        assert not re.findall(r'<(?:script|img|iframe)[^>]+src="?(?:https?:)?//', page), path.name
        assert not re.findall(r'<link[^>]+rel="?(?:stylesheet|preconnect)"?[^>]+href="?https?:', page), path.name


def test_lists_and_tables_are_seen_as_such(site: Path) -> None:
    odd = [
        f"{path.relative_to(site)}: {paragraph[:90]!r}"
        for path in site.rglob("*.html")
        for paragraph in re.findall(r"<p>(.*?)</p>", path.read_text(encoding="utf-8"), re.DOTALL)
        if re.search(r"\n(?:[*-] |\d+\. |\|)", paragraph)
    ]
    assert odd == [], "an empty line is missing before a list or a table"


@pytest.mark.skipif(CHROMIUM is None, reason="chromium is not installed: make setup-browser")
def test_opened_from_files_it_searches_fits_a_phone_and_asks_nobody(site: Path) -> None:
    from playwright.sync_api import sync_playwright

    said: list[str] = []
    with sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path=CHROMIUM, args=["--no-sandbox"])
        page = browser.new_page(viewport={"width": 1240, "height": 900})
        page.on("console", lambda message: said.append(message.text))
        page.on("pageerror", lambda error: said.append(str(error)))
        page.on("request", lambda request: said.append(request.url) if request.url.startswith("http") else None)
        page.goto((site / "tutorials/own-fault.html").as_uri())
        page.locator("input.md-search__input").fill("exposed propagate")
        found = page.locator(".md-search-result__item a").first
        found.wait_for()
        assert "concepts/states.html" in found.get_attribute("href")
        page.set_viewport_size({"width": 390, "height": 844})
        for name in ("index", "emulation", "commands", "notebook", "reference/python", "reference/keys"):
            page.goto((site / f"{name}.html").as_uri())
            assert page.evaluate("() => document.documentElement.scrollWidth") == 390, name
        browser.close()
    assert said == []
