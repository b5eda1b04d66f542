"""Whatever is done to a sealed archive is found, and what sha256sum makes of its manifest."""

from __future__ import annotations

import json
import shutil
import subprocess
from collections.abc import Callable
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from e2c_dl.archive import layout, manifest
from e2c_dl.archive.run import Outcome
from e2c_dl.archive.verify import verify
from e2c_dl.archive.write import Archive
from e2c_dl.errors import ArchiveError

ODD = "logs/a \\ b\nc.log"


@pytest.fixture
def sealed(tmp_path: Path) -> Path:
    path = tmp_path / "run"
    archive = Archive.create(path, "5a3b1e07", started="2025-01-31T10:00:00+00:00", versions={"e2c_dl": "0.1.0"})
    (path / "logs").mkdir()
    (path / ODD).write_text("odd")
    (path / layout.SCENARIO).mkdir()
    (path / layout.SCENARIO / "network.yaml").write_text("networks: []")
    (path / layout.LINKS).write_text("[]")
    archive.end(Outcome.FAILED, "2025-01-31T10:01:00+00:00", "a rank died")
    archive.seal()
    return path


def test_a_sealed_archive_of_a_failed_run_verifies(sealed: Path) -> None:
    assert verify(sealed) == ()


@pytest.mark.parametrize(
    ("harm", "said"),
    [
        (lambda p: (p / "links.json").write_text("[1]"), "links.json: was altered since the archive was sealed"),
        (lambda p: (p / "links.json").unlink(), "links.json: missing"),
        (lambda p: (p / "new.txt").write_text("x"), "new.txt: was not there when the archive was sealed"),
        (lambda p: (p / "linked").symlink_to("/etc"), "linked: was not there when the archive was sealed"),
        (lambda p: (p / "run.json").write_text("{"), "run.json: is not valid JSON"),
        (lambda p: (p / "run.json").unlink(), "is no archive (it has no run.json)"),
        (lambda p: (p / "run.json").write_text("[]"), "run.json: is not a JSON object"),
        (lambda p: (p / layout.CRATE).write_text("{"), "ro-crate-metadata.json: is not RO-Crate metadata"),
        (lambda p: (p / layout.CRATE).write_text('{"@graph": []}'), "ro-crate-metadata.json: has no './'"),
        (lambda p: (p / layout.CRATE).unlink(), "ro-crate-metadata.json: missing"),
        (lambda p: (p / layout.MANIFEST).unlink(), "manifest-sha256.txt: missing"),
        (lambda p: (p / layout.MANIFEST).write_text("junk\n"), "line 1 is not 'checksum  path'"),
    ],
)
def test_every_harm_is_named(sealed: Path, harm: Callable[[Path], object], said: str) -> None:
    harm(sealed)
    assert any(said in problem for problem in verify(sealed)), verify(sealed)


def test_what_is_no_archive_is_refused(tmp_path: Path) -> None:
    with pytest.raises(ArchiveError, match="is not a directory"):
        verify(tmp_path / "absent")


@pytest.mark.skipif(shutil.which("sha256sum") is None, reason="needs coreutils")
def test_sha256sum_reads_the_manifest(sealed: Path) -> None:
    def check() -> int:
        argv = ["sha256sum", "--check", "--strict", "--quiet", layout.MANIFEST]
        return subprocess.run(argv, cwd=sealed, capture_output=True, check=False).returncode

    assert check() == 0
    (sealed / ODD).write_text("other")
    assert check() != 0


@given(st.dictionaries(st.text(st.characters(exclude_characters="\0"), min_size=1), st.just("0" * 64)))
def test_any_name_survives_the_manifest(checksums: dict[str, str]) -> None:
    assert manifest.parse(manifest.render(checksums)) == checksums


def test_the_crate_says_what_a_reader_of_crates_needs(sealed: Path) -> None:
    described = json.loads((sealed / layout.CRATE).read_text())
    entities = {entity["@id"]: entity for entity in described["@graph"]}
    root, action = entities["./"], entities["#run"]
    assert described["@context"] == "https://w3id.org/ro/crate/1.1/context"
    assert entities[layout.CRATE]["conformsTo"] == {"@id": "https://w3id.org/ro/crate/1.1"}
    assert root["conformsTo"] == {"@id": "https://w3id.org/ro/wfrun/process/0.5"}
    assert root["datePublished"] == "2025-01-31T10:01:00+00:00"
    assert entities[root["license"]["@id"]]["name"] == "no licence stated"
    assert action["instrument"] == {"@id": "#e2c_dl"}
    assert entities["#e2c_dl"]["version"] == "0.1.0"
    assert action["error"] == "a rank died"
    assert action["object"] == [{"@id": "scenario/network.yaml"}]
    parts = {part["@id"] for part in root["hasPart"]}
    assert {"run.json", "links.json", "scenario/network.yaml", "logs/a%20%5C%20b%0Ac.log"} <= parts
    assert entities["scenario/network.yaml"]["encodingFormat"] == "application/yaml"
