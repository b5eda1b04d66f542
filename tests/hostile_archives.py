"""Archives that somebody has tampered with: one that a simulated run left, and edits of it, which are JSON themselves.

::

    {"file": "run.json", "at": ["hosts", 0, "rank"], "to": null}         a value of a JSON file, or of the last line of
    {"file": "run.json", "at": ["hosts"], "gone": true}                  a JSON Lines file: another, or none
    {"file": "hosts/edge-2/spans.bin", "row": 3, "column": "phase", "to": 250}
    {"file": "run.json", "text": "[", "times": 100000}                   the whole content
    {"file": "links.json", "offset": 20, "bytes": "00ff"}                some bytes, as hexadecimal
    {"file": "links.json", "cut": 20}                                    what comes after so many bytes is gone
    {"file": "hosts", "is": "link", "to": "OUTSIDE"}                     link, pipe, folder, nothing, or another name
"""

from __future__ import annotations

import json
import os
import shutil
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from simulated_scenario import scenario, simulated

from e2c_dl.archive import layout, manifest
from e2c_dl.archive.host_records import HostRecords
from e2c_dl.archive.records import ComputeFacts
from e2c_dl.archive.write import amend
from e2c_dl.emulation.measuring.fidelity import BottleneckFidelity
from e2c_dl.emulation.measuring.measured import Share
from e2c_dl.errors import ArchiveError
from e2c_dl.trace.check import SpansFacts
from e2c_dl.trace.model import Spans
from e2c_dl.trace.recording import span_log
from e2c_dl.trace.store import read_parquet, write_parquet

Edit = dict[str, Any]

OUTSIDE = "OUTSIDE"
"""Stands for a folder beside the archive, of which nothing may change, in what a link leads to."""

_EMULATION = {
    "compute": {"method": "sleep", "cores": 0.1},
    "bottlenecks": [{"name": "campus", "links": [{"src": "edge-1", "dst": "*.*"}], "rate": "40mbit"}],
    "schedules": {
        "links": [{"src": "edge-2", "dst": "*.*", "rate": {"steps": {"0s": "50mbit", "1s": "20mbit"}}}],
        "compute": [{"host": "edge-1", "factor": {"steps": {"0s": 1, "1s": 2}}}],
        "thermal": [
            {"host": "edge-2", "ambient": 25, "rise": 60, "throttled_rise": 30, "tau": "1s", "limit": 30,
             "hysteresis": 1, "factor": 2},
            ],
    },
}  # fmt: skip
_MEASURED = {
    "rate_bps": 49e6, "rate_is_floor": False, "round_trip_s": 0.011, "round_trip_spread_s": 0.001, "pings": 20,
    "loss": 0.0, "loss_samples": 400, "thorough": True, "rate_interval_bps": [48e6, 50e6], "delay_spread_s": 0.001,
}  # fmt: skip


def made(folder: Path) -> Path:
    """An archive below ``folder`` that holds every kind of record, sealed; without the page, which is large."""
    archive = simulated(scenario(folder / "s", emulation=_EMULATION), shapes_only=True).path
    host = HostRecords(archive / layout.HOSTS / "edge-2")
    table = archive / layout.TRACES / "edge-2.parquet"
    facts, spans, _ = read_parquet(table)
    _write_raw(host.path / layout.SPANS_RAW, facts, spans)
    table.unlink()
    first_ns = int(spans["start_ns"].min())
    rows = [f"{first_ns + second * 10**9},{second},{100 - second}.5" for second in range(5)]
    host.metrics_file.write_text("\n".join(["time_ns,cpu_percent,memory_bytes", *rows, ""]))
    host.log.write_text("ready\n")
    host.amend_facts(
        cpu_model="a", cores=4, compute=ComputeFacts.of([slice(0, 7)], (), calibrated_s=(0.1, 0.2), agreed_s=(0.1, 0.2))
    )
    links = json.loads((archive / layout.LINKS).read_text())
    for row in links["rows"]:
        row["measured"] = _MEASURED
    (archive / layout.LINKS).write_text(json.dumps(links))
    shutil.copyfile(archive / layout.LINKS, host.path / layout.HOST_LINKS)
    pair = (links["rows"][0]["src"], links["rows"][0]["dst"])
    share = Share(rate_bps=19e6, interval_bps=(18e6, 20e6), offered_bps=40e6)
    row = BottleneckFidelity(name="campus", requested_bps=40e6, shares=((pair, share),)).to_json()
    (archive / layout.BOTTLENECKS).write_text(json.dumps({"format": 2, "rows": [row]}))
    (archive / layout.REPORT_HTML).unlink()
    (archive / layout.LOGS).mkdir()
    (archive / layout.LOGS / layout.CONSOLE_LOG).write_text("train     done\n")
    seal(archive)
    return archive


def seal(archive: Path) -> None:
    """Its manifest vouches for what it holds now."""
    (archive / layout.MANIFEST).unlink(missing_ok=True)
    manifest.write(archive, {})
    amend(archive, list(manifest.files(archive)))


def copied(archive: Path, target: Path) -> Path:
    """A copy of ``archive``, of files that this test may spoil."""
    return Path(shutil.copytree(archive, target))


def tamper(archive: Path, edits: Sequence[Edit], outside: Path) -> None:
    """``archive`` after ``edits``, one after the other. Raises: OSError, ValueError, LookupError for one that does not
    apply, as to a file that an earlier one has removed, or spoiled.
    """
    for edit in edits:
        file = archive / edit["file"]
        if "is" in edit:
            _replace(file, edit, outside)
            continue
        if file.is_symlink() or (
            file.exists() and not file.is_file()
        ):  # an earlier edit's pipe would be waited for, its link followed
            raise ValueError(f"{file}: is no plain file any more")
        if "column" in edit:
            _edit_span(file, edit)
        elif "at" in edit:
            _edit_json(file, edit)
        else:
            file.write_bytes(_edited(file, edit))


def _replace(file: Path, edit: Edit, outside: Path) -> None:
    if edit["is"] == "named":
        file.rename(file.parent / edit["to"])
        return
    if file.is_dir() and not file.is_symlink():
        shutil.rmtree(file)
    else:
        file.unlink(missing_ok=True)
    file.parent.mkdir(parents=True, exist_ok=True)
    if edit["is"] == "link":
        file.symlink_to(edit["to"].replace(OUTSIDE, str(outside)))
    elif edit["is"] == "pipe":
        os.mkfifo(file)
    elif edit["is"] == "folder":
        file.mkdir()


def _edited(file: Path, edit: Edit) -> bytes:
    if "text" in edit:
        return edit["text"].encode() * edit.get("times", 1)
    content = file.read_bytes()
    if "cut" in edit:
        return content[: edit["cut"]]
    given, offset = bytes.fromhex(edit["bytes"]), edit["offset"]
    return content[:offset] + given + content[offset + len(given) :]


def _edit_json(file: Path, edit: Edit) -> None:
    *above, last = file.read_text().rstrip("\n").split("\n") if file.suffix == ".jsonl" else [file.read_text()]
    value = json.loads(last)
    if not edit["at"]:
        value = edit["to"]
    else:
        place = value
        for step in edit["at"][:-1]:
            place = place[step]
        if "gone" in edit:
            del place[edit["at"][-1]]
        else:
            place[edit["at"][-1]] = edit["to"]
    file.write_text("\n".join([*above, json.dumps(value), ""]))


def _edit_span(file: Path, edit: Edit) -> None:
    if file.suffix == ".parquet":
        try:
            facts, spans, complete = read_parquet(file)
        except ArchiveError as error:
            raise ValueError(f"{file}: holds no spans any more") from error
        spans[edit["column"]][edit["row"]] = edit["to"]
        known = {"rank": facts.rank, "host": facts.host, "layer": facts.layer}
        write_parquet(file, spans, known, complete=complete)
        return
    facts, spans, _ = span_log.read_spans(file)
    spans[edit["column"]][edit["row"]] = edit["to"]
    _write_raw(file, facts, spans)


def _write_raw(file: Path, facts: SpansFacts, spans: Spans) -> None:
    """What a rank that was killed leaves: frames, and no end."""
    records = span_log.frames(spans.tobytes(), number=0)
    file.write_bytes(span_log.opening(facts.rank, facts.host, facts.layer) + records)
