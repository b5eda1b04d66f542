"""Whatever is done to an archive's records, the commands that read it succeed or fail in one line, and harm nothing.

First the corpus, what was found before; then some edits, the same for everybody. With E2CDL_FUZZ_SECONDS, as ``make
fuzz`` sets it, these are edits that nobody has tried, until the time is over.
"""

from __future__ import annotations

import json
import os
import random
import shutil
import time
from pathlib import Path

import pytest
from hostile_archives import made
from judged import judged
from mutations import cases

CORPUS = Path(__file__).parent / "corpus"
SECONDS = float(os.environ.get("E2CDL_FUZZ_SECONDS", "0"))
EDITS = 12


@pytest.fixture(scope="module")
def archive(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return made(tmp_path_factory.mktemp("original"))


@pytest.mark.parametrize("name", sorted(path.stem for path in CORPUS.glob("*.json")))
def test_what_was_found_before_stays_away(archive: Path, tmp_path: Path, name: str) -> None:
    assert judged(archive, json.loads((CORPUS / f"{name}.json").read_text()), tmp_path / "case") is None


def test_an_archive_that_nobody_touched_is_taken(archive: Path, tmp_path: Path) -> None:
    assert judged(archive, [], tmp_path / "case") is None


@pytest.mark.timeout(SECONDS + 900)
def test_new_edits_are_taken(archive: Path, tmp_path: Path) -> None:
    seed, end, applied = random.randrange(1 << 32) if SECONDS else 1, time.monotonic() + SECONDS, 0
    drawn = cases(archive, random.Random(seed))
    while time.monotonic() < end if SECONDS else applied < EDITS:
        edits, place = next(drawn), tmp_path / "case"
        try:
            wrong = judged(archive, edits, place)
            applied += 1
        except (OSError, ValueError, LookupError, TypeError):  # a later edit of what an earlier one has spoilt
            wrong = None
        shutil.rmtree(place)
        assert wrong is None, (
            f"{wrong}\nseed {seed}; once it is mended, keep it as {CORPUS}/SAY-WHAT.json:\n{json.dumps(edits)}"
        )
    assert applied
