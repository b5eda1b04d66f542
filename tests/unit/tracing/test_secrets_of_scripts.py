"""What a script raises, and what its ranks say, stands in its archive without what looks like a secret."""

from __future__ import annotations

import json
import os
import time
from pathlib import Path

from e2c_dl.archive.read import open_archive
from e2c_dl.campaign.traced import Ran, collected
from e2c_dl.redaction import of_command
from e2c_dl.tracing import folder
from e2c_dl.tracing.rendezvous import boot

SECRET = "hf_plantedplantedplanted"


def test_no_secret_is_in_the_archive_of_a_script(tmp_path: Path) -> None:
    own = tmp_path / "hosts" / "h0"
    own.mkdir(parents=True)
    told = {"format": 1, "rank": 0, "world_size": 1, "pid": os.getpid(), "boot": boot(), "begun_s": time.time()}
    missing = f"no hook: 401 for https://me:{SECRET}@hub/x"
    (own / "tracing.json").write_text(json.dumps({**told, "limitations": [missing], "wrote": [f"/x?token={SECRET}"]}))
    folder.end(own, rank=0, iterations=3, seconds=1.0, failure=f"RuntimeError: 401 for Authorization: Bearer {SECRET}")
    command = of_command(["python", "main.py", "--passwd", SECRET])
    archive = open_archive(collected([tmp_path], tmp_path, ran=Ran(command=command, exit_code=1)))
    assert archive.run.command == ("python", "main.py", "--passwd", "REDACTED")
    assert "no hook: 401 for https://me:REDACTED@hub/x" in archive.run.limitations
    assert "h0: RuntimeError: 401 for Authorization: Bearer REDACTED" in archive.run.what_happened
    files = [path for path in tmp_path.rglob("*") if path.is_file()]
    assert {"run.json", "outcome.json", "tracing.json"} <= {path.name for path in files}
    assert [path.name for path in files if SECRET.encode() in path.read_bytes()] == []
