"""What could not be honoured is found in what the hosts left."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from e2c_dl.archive import layout
from e2c_dl.archive.read import open_archive
from e2c_dl.archive.write import Archive
from e2c_dl.campaign import judge


@pytest.mark.parametrize(
    ("compute", "said"),
    [
        ({"speed": 0.2, "agreed_s": [0.0, 0.0]}, ("edge-1: the clock of CPU time is too coarse",)),
        ({"speed": 0.2, "agreed_s": [0.001, 0.0]}, ()),
        ({"speed": None, "agreed_s": [0.0]}, ()),
        ({"speed": 0.2}, ()),
    ],
)
def test_hosts_whose_gradients_measured_nothing_were_not_slowed(
    tmp_path: Path, compute: dict[str, object], said: tuple[str, ...]
) -> None:
    Archive.create(tmp_path / "run", "5a3b1e07", started="2025-01-31T10:00:00+00:00")
    for host, facts in {"edge-1": {"compute": compute}, "edge-2": {}}.items():
        folder = tmp_path / "run" / layout.HOSTS / host
        folder.mkdir(parents=True)
        (folder / layout.FACTS).write_text(json.dumps(facts))
    found = judge.not_slowed(open_archive(tmp_path / "run"))
    assert [sentence.partition(" for so")[0] for sentence in found] == list(said)
