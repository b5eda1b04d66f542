"""Secrets taken out of an archive's files, whatever these are and however large."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from e2c_dl.archive import redact
from e2c_dl.redaction import Redactor

SECRET = "hunter2hunter2"


@pytest.fixture
def own(tmp_path: Path) -> Path:
    folder = tmp_path / "hosts" / "node-1_0"
    folder.mkdir(parents=True)
    return folder


def test_a_profilers_trace_may_be_larger_than_any_record(own: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(redact, "SMALL_BYTES", 1000)
    for name, said in (("trace.json", "aten::add"), ("trace-2.json", SECRET)):
        (own / name).write_text(json.dumps({"traceEvents": [{"name": said}] * 100}))
    (sentence,) = redact.redact(own.parents[1], Redactor([SECRET]))
    assert sentence.startswith("hosts/node-1_0/trace-2.json held a secret")
    assert [each.name for each in own.iterdir()] == ["trace.json"]


def test_what_a_script_has_written_holds_no_secret_though_it_breaks_off(own: Path) -> None:
    (own / "timeline.json").write_text(f'[{{"name": "{SECRET}"}},\n{{"na')  # as Horovod leaves one when it is killed
    (own / "timeline").write_text(f'[{{"name": "{SECRET}"}}]')
    (own / "report1.nsys-rep").write_bytes(b"\0\1" + SECRET.encode())
    (sentence,) = redact.redact(own.parents[1], Redactor([SECRET]))
    assert sentence.startswith("hosts/node-1_0/report1.nsys-rep held a secret")
    assert (own / "timeline.json").read_text() == '[{"name": "REDACTED"},\n{"na'
    assert json.loads((own / "timeline").read_text()) == [{"name": "REDACTED"}]


def test_what_holds_none_stays_as_it_is_and_records_keep_their_keys(own: Path) -> None:
    (own / "spans.bin").write_bytes(SECRET.encode())  # numbers may look like anything
    (own / "facts.json").write_text(json.dumps({SECRET: SECRET}))
    (own / "timeline.json").write_text('[{"name": "all_reduce"},')
    assert redact.redact(own.parents[1], Redactor([SECRET])) == ()
    assert (own / "spans.bin").read_bytes() == SECRET.encode()
    assert json.loads((own / "facts.json").read_text()) == {SECRET: "REDACTED"}
    assert (own / "timeline.json").read_text() == '[{"name": "all_reduce"},'
