"""docs/trace-format.md and docs/propagation.md on files while they are recorded: as they are."""

from __future__ import annotations

from pathlib import Path

from e2c_dl.trace.model import RECORD_BYTES
from e2c_dl.trace.recording.keeping import SPAN_BYTES
from e2c_dl.trace.recording.log import Log, read_log

DOCS = Path(__file__).parents[3] / "docs"


def test_a_frame_has_as_many_spans_as_the_page_says(tmp_path: Path) -> None:
    with Log(tmp_path / "spans.bin", {}, flush_every_s=60, record_bytes=RECORD_BYTES) as log:
        log.extend(1, [bytes(RECORD_BYTES)] * 2000)
    most = max(len(payload) // RECORD_BYTES for kind, payload in read_log(tmp_path / "spans.bin").frames if kind == 1)
    page = (DOCS / "trace-format.md").read_text()
    assert f"kind 1 up to {most} spans of {RECORD_BYTES} bytes" in page and f"at most {most} spans" in page
    assert f"counts as the {SPAN_BYTES} bytes that it takes if it is written alone" in page.replace("\n", " ")


def test_columns_of_connections_are_told_in_one_place() -> None:
    text = (DOCS / "propagation.md").read_text()
    assert "(trace-format.md#connections)" in text and "| `cookie` |" not in text
