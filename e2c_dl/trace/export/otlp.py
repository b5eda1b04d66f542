"""A Trace for whatever reads OpenTelemetry: OTLP in JSON, a TracesData per line, of so many spans of a rank.

::

    resource   service.name e2c_dl, host.name edge-1, e2c_dl.rank 0, e2c_dl.layer edge
    trace      one per run
    span       iteration 17                     parent of what belongs to it on its rank
    span         send b3, kind PRODUCER         attributes: e2c_dl.phase, .iteration, .bucket, .nbytes, .src ...
    span         receive b3, kind CONSUMER      linked to the send

OpenTelemetry counts from 1970: the run's training is laid at the second at which its archive says that the run began.
Where that is not known it is laid at 0. Distances are to the nanosecond.
"""

from __future__ import annotations

import hashlib
import itertools
import json
from collections.abc import Iterator
from datetime import datetime
from pathlib import Path
from typing import Any

from e2c_dl.atomic_write import ELSEWHERE, written
from e2c_dl.trace.columns import COLLECTIVES, PHASES, SEQ_OF, TASKS
from e2c_dl.trace.export.origin import origin_ns
from e2c_dl.trace.model import Phase, RankTrace, Trace

_INTERNAL, _PRODUCER, _CONSUMER = 1, 4, 5  # SpanKind
_KINDS = {Phase.SEND: _PRODUCER, Phase.RECEIVE: _CONSUMER}
_NONE = {"iteration": -1, "bucket": -1, "src": -1, "dst": -1, "seq": -1, "nbytes": 0, "staleness": 0, "task": -2}

SPANS_PER_LINE = 500
"""Of at most 2 kB each: readers take lines of up to 1 MiB."""

Ids = dict[tuple[int, int, int], str]
"""(src, dst, seq) of a message -> id of its SEND."""


def write(trace: Trace, path: Path) -> None:
    """Write ``trace`` to ``path``. Raises: ArchiveError, if it cannot be written."""
    run = f"{trace.facts.get('run_id', '')} {trace.facts.get('scenario', '')} {trace.facts.get('started', '')}"
    trace_id = hashlib.sha256(run.encode()).hexdigest()[:32]
    later_ns = max(0, _epoch_ns(trace.facts.get("started"))) - origin_ns(trace)
    early_ns = min((int(rank.spans["start_ns"].min()) for rank in trace.ranks if len(rank.spans)), default=0)
    later_ns = max(later_ns, -early_ns)  # no time is before 1970
    sends = {key: one for rank in trace.ranks for key, one in _sends(rank)}
    with written(path, ELSEWHERE) as place, place.open("w", encoding="utf-8") as file:
        for rank in trace.ranks:
            spans, resource = _spans(rank, trace_id, later_ns, sends), _resource(rank)
            while some := list(itertools.islice(spans, SPANS_PER_LINE)):
                scope = {"scope": {"name": "e2c_dl"}, "spans": some}
                line = {"resourceSpans": [{"resource": resource, "scopeSpans": [scope]}]}
                file.write(json.dumps(line) + "\n")  # json.dump takes twice as long


def _resource(rank: RankTrace) -> dict[str, Any]:
    about: dict[str, str | int] = {
        "service.name": "e2c_dl", "host.name": rank.host, "e2c_dl.rank": rank.rank, "e2c_dl.layer": rank.layer,
    }  # fmt: skip
    return {"attributes": [_attribute(name, value) for name, value in about.items()]}


def _spans(rank: RankTrace, trace_id: str, later_ns: int, sends: Ids) -> Iterator[dict[str, Any]]:
    iterations = {
        int(rank.spans["iteration"][row]): _span_id(rank.rank, int(row))
        for row in (rank.spans["phase"] == Phase.ITERATION).nonzero()[0]
    }
    names = rank.spans.dtype.names or ()
    columns = (rank.spans[name].tolist() for name in names)
    for number, values in enumerate(zip(*columns, strict=True)):
        row = dict(zip(names, values, strict=True))
        phase, own = Phase(row["phase"]), _span_id(rank.rank, number)
        span: dict[str, Any] = {
            "traceId": trace_id,
            "spanId": own,
            "name": _name(phase, row),
            "kind": _KINDS.get(phase, _INTERNAL),
            "startTimeUnixNano": str(row["start_ns"] + later_ns),
            "endTimeUnixNano": str(row["end_ns"] + later_ns),
            "attributes": [_attribute("e2c_dl.phase", PHASES[phase]), *_attributes(phase, row)],
        }
        parent = iterations.get(row["iteration"])
        if parent is not None and parent != own:
            span["parentSpanId"] = parent
        sent = sends.get((row["src"], row["dst"], row["seq"])) if phase is Phase.RECEIVE else None
        if sent is not None:
            span["links"] = [{"traceId": trace_id, "spanId": sent}]
        yield span


def _attributes(phase: Phase, row: dict[str, int]) -> Iterator[dict[str, Any]]:
    if phase in (Phase.COLLECTIVE, Phase.AWAIT_COLLECTIVE):
        yield _attribute("e2c_dl.kind", COLLECTIVES.get(row["kind"], str(row["kind"])))
        if row["peer_task"] != -2:
            yield _attribute("e2c_dl.group", row["peer_task"] + 1)
    for name, none in _NONE.items():
        if row[name] != none:
            told = SEQ_OF.get(phase, name) if name == "seq" else name
            yield _attribute(f"e2c_dl.{told}", row[name] + (name in TASKS))


def _name(phase: Phase, row: dict[str, int]) -> str:
    name = PHASES[phase].replace("_", " ")
    if phase is Phase.ITERATION:
        return f"{name} {row['iteration']}"
    return f"{name} b{row['bucket']}" if row["bucket"] >= 0 else name


def _sends(rank: RankTrace) -> Iterator[tuple[tuple[int, int, int], str]]:
    for row in (rank.spans["phase"] == Phase.SEND).nonzero()[0]:
        sent = rank.spans[row]
        yield (int(sent["src"]), int(sent["dst"]), int(sent["seq"])), _span_id(rank.rank, int(row))


def _span_id(rank: int, row: int) -> str:
    return f"{rank + 1:06x}{row:010x}"  # never all zeros, which is none


def _attribute(name: str, value: str | int) -> dict[str, Any]:
    # 64-bit integers are strings in the JSON of protocol buffers.
    return {"key": name, "value": {"stringValue": value} if isinstance(value, str) else {"intValue": str(value)}}


def _epoch_ns(started: Any) -> int:
    try:
        return int(datetime.fromisoformat(str(started)).timestamp()) * 10**9
    except (ValueError, OverflowError):
        return 0
