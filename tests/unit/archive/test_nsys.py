"""What nsys recorded lies on the archive's clock: of one real report, and of tables as NVIDIA documents them.

``of-nsys/report1.sql`` is of what Nsight Systems 2022.4.2 exported (``-t nvtx,osrt``) of a script, under ``trace``,
that has a range for each iteration and, in it, one for the step, which begins by sleeping 20 ms; of the calls into
libraries, those of 15 ms or more. There was no GPU: tables of one are filled by hand.
"""

from __future__ import annotations

import json
import shutil
import sqlite3
from collections.abc import Iterator
from contextlib import closing, contextmanager
from pathlib import Path

import numpy as np
import pytest

from e2c_dl.archive import nsys
from e2c_dl.archive.script_traces import Event, found, merged
from e2c_dl.beneath import Place
from e2c_dl.trace.model import SPAN, ClockAlignment, Phase, RankTrace, Trace

MADE = Path(__file__).parent / "of-nsys"
AHEAD_NS = 5_000_000_000  # of the rank's own clock, the archive's
OWN_NS = [  # each optimizer's step, as the tracer saw it
    (86677473561899, 86677474105279), (86677706816863, 86677707234957),
    (86677765313544, 86677765588991), (86677813247702, 86677813567572),
]  # fmt: skip
ON_GPU = """
CREATE TABLE CUPTI_ACTIVITY_KIND_KERNEL (start INT, end INT, deviceId INT, streamId INT, shortName INT);
CREATE TABLE CUPTI_ACTIVITY_KIND_MEMCPY (start INT, end INT, deviceId INT, streamId INT, bytes INT, copyKind INT);
CREATE TABLE CUPTI_ACTIVITY_KIND_MEMSET (start INT, end INT, deviceId INT, streamId INT, bytes INT);
CREATE TABLE CUPTI_ACTIVITY_KIND_RUNTIME (start INT, end INT, globalTid INT, nameId INT);
INSERT INTO StringIds VALUES (9001, 'sgemm'), (9002, 'cudaLaunchKernel');
INSERT INTO CUPTI_ACTIVITY_KIND_KERNEL VALUES (2000, 7000, 1, 7, 9001);
INSERT INTO CUPTI_ACTIVITY_KIND_MEMCPY VALUES (1000, 1500, 1, 7, 4096, 1);
INSERT INTO CUPTI_ACTIVITY_KIND_MEMSET VALUES (1600, 1700, 0, 7, 64);
INSERT INTO CUPTI_ACTIVITY_KIND_RUNTIME VALUES (100, 900, 281963697041866, 9002);
"""


@pytest.fixture
def host(tmp_path: Path) -> Path:
    """The folder of one rank, with the report's export."""
    path = tmp_path / "hosts" / "edge-1"
    path.mkdir(parents=True)
    shutil.copyfile(MADE / "tracing.json", path / "tracing.json")
    with closing(sqlite3.connect(path / "report1.sqlite")) as export:
        export.executescript((MADE / "report1.sql").read_text())
    return path


@contextmanager
def changed(host: Path) -> Iterator[sqlite3.Connection]:
    with closing(sqlite3.connect(host / "report1.sqlite")) as export, export:
        yield export


def of_one_rank() -> Trace:
    spans = np.zeros(len(OWN_NS), dtype=SPAN)
    spans["phase"], spans["iteration"] = Phase.STEP, range(len(OWN_NS))
    spans["start_ns"], spans["end_ns"] = np.array(OWN_NS).T + AHEAD_NS
    rank = RankTrace(rank=0, host="edge-1", layer="edge", spans=spans, clock=ClockAlignment(offset_ns=AHEAD_NS))
    return Trace(ranks=(rank,), facts={})


def events(host: Path) -> list[Event]:
    traces, problems = found(Place(host.parents[1]), of_one_rank())
    assert problems == ()
    return list(merged(traces)(AHEAD_NS))


def test_its_ranges_lie_around_what_the_tracer_saw(host: Path) -> None:
    ranges = [each for each in events(host) if each.get("cat") == "NVTX"]
    steps = [(each["ts"], each["ts"] + each["dur"]) for each in ranges if each["name"] == "step"]
    iterations = [(each["ts"], each["ts"] + each["dur"]) for each in ranges if each["name"].startswith("iteration")]
    assert len(steps) == len(iterations) == len(OWN_NS)
    for (start_ns, end_ns), step, iteration in zip(OWN_NS, steps, iterations, strict=True):
        assert iteration[0] < step[0] < start_ns / 1000 - 20_000  # it sleeps first
        assert end_ns / 1000 < step[1] < iteration[1]
    for (_, end_ns), (_, step_end) in list(zip(OWN_NS, steps, strict=True))[1:]:  # after the first, which loads modules
        assert step_end - end_ns / 1000 < 1500


def test_calls_into_libraries_are_on_the_thread_that_made_them(host: Path) -> None:
    found_events = events(host)
    steps = [each for each in found_events if each.get("name") == "step"]
    slept = [each for each in found_events if each.get("name") == "clock_nanosleep"]
    assert [each["cat"] for each in slept] == ["call"] * 4
    assert len({(each["pid"], each["tid"]) for each in [*steps, *slept]}) == 1
    assert all(20_000 < each["dur"] < 21_000 for each in slept)
    (named,) = (each["args"]["name"] for each in found_events if each["ph"] == "M")
    assert named == "edge-1: report1.sqlite: python"


def test_what_a_gpu_did_is_on_its_streams(host: Path) -> None:
    with changed(host) as export:
        export.executescript(ON_GPU)
    found_events = events(host)
    named = {each["pid"]: each["args"]["name"].rpartition(": ")[2] for each in found_events if each["ph"] == "M"}
    began_us = min(each["ts"] for each in found_events if each["ph"] == "X")
    lasting = {each["name"]: each for each in found_events if each["ph"] == "X"}
    told = {
        name: (round(lasting[name]["ts"] - began_us, 2), lasting[name]["dur"], named[lasting[name]["pid"]])
        for name in ("cudaLaunchKernel", "copy to GPU", "set", "sgemm")
    }
    assert told == {
        "cudaLaunchKernel": (0, 0.8, "python"), "copy to GPU": (0.9, 0.5, "GPU 1"),
        "set": (1.5, 0.1, "GPU 0"), "sgemm": (1.9, 5.0, "GPU 1"),
    }  # fmt: skip
    assert lasting["copy to GPU"]["args"] == {"bytes": 4096}


def test_ranges_without_end_are_left_out_and_moments_are_shown(host: Path) -> None:
    with changed(host) as export:
        export.execute("INSERT INTO NVTX_EVENTS (start, eventType, text) VALUES (11000000000, 60, 'never ended')")
        export.execute("INSERT INTO NVTX_EVENTS (start, eventType, text) VALUES (11000000000, 34, 'here')")
    told = {each["name"]: each for each in events(host)}
    assert "never ended" not in told
    assert told["here"]["ph"] == "i"


def test_rows_that_hold_no_numbers_are_left_out_and_counted(host: Path) -> None:
    with changed(host) as export:
        export.executescript(ON_GPU)
        export.execute("UPDATE StringIds SET value = x'ff00' WHERE value = 'clock_nanosleep'")
        export.execute("UPDATE StringIds SET value = CAST(x'ff41' AS TEXT) WHERE value = 'sgemm'")
    before = events(host)
    assert {"call", "\ufffdA"} <= {each["name"] for each in before}, "a name that is none costs no event"
    with changed(host) as export:
        export.execute("CREATE TABLE odd AS SELECT * FROM OSRT_API LIMIT 2")
        export.execute("UPDATE odd SET end = 'late' WHERE rowid = 1")
        export.execute("UPDATE odd SET globalTid = 'abc' WHERE rowid = 2")
        export.execute("INSERT INTO OSRT_API SELECT * FROM odd")
        export.execute("INSERT INTO NVTX_EVENTS (start, end, eventType, text) VALUES (5, 9, 59, x'ff')")
        export.execute("INSERT INTO NVTX_EVENTS (start, end, eventType, text) VALUES ('noon', 9, 59, 'a')")
        export.execute("INSERT INTO CUPTI_ACTIVITY_KIND_MEMSET VALUES (5, 1e300, 0, 7, 64), (5, 9, 0, 7, x'ff')")
        export.execute(
            "INSERT INTO CUPTI_ACTIVITY_KIND_KERNEL VALUES (-9223372036854775807, 9, 0, 7, 1), (9, 5, 1, 7, 1)"
        )
    traces, problems = found(Place(host.parents[1]), of_one_rank())
    assert problems == (f"{host}/report1.sqlite: 8 of its events cannot be read, and are left out",)
    assert list(merged(traces)(AHEAD_NS)) == before
    json.dumps(before)


def test_what_an_archive_keeps_of_an_export_tells_the_same_and_no_environment(host: Path, tmp_path: Path) -> None:
    with changed(host) as export:
        export.executescript(ON_GPU)
        environment = "HOME=/home\0MY_TOKEN=planted-planted\0MAX_TOKENS=51200000\0A_TOKEN=/of/token\0OTHER_TOKEN="
        export.execute("INSERT INTO StringIds VALUES (9100, ?), (9101, 'python main.py --lr=1')", (environment,))
        export.execute("CREATE TABLE TARGET_INFO_SYSTEM_ENV (value TEXT)")
        export.execute("INSERT INTO TARGET_INFO_SYSTEM_ENV VALUES (?)", (environment,))
        export.execute("INSERT INTO PROCESSES VALUES (281474993487872, 1, 'init')")
    before = events(host)
    whole, kept = host / "report1.sqlite", tmp_path / "kept"
    with nsys.opened(whole) as export:
        assert nsys.secrets(export) == {"MY_TOKEN"}
        assert nsys.processes(export) == {29130}
    nsys.write_read(whole, kept)
    kept.replace(whole)
    assert events(host) == before
    assert not any(word in whole.read_bytes() for word in (b"planted", b"HOME", b"init", b"--lr"))


def test_the_time_of_day_may_be_set_meanwhile(host: Path) -> None:
    before = events(host)
    own_ns, day_ns = 86677400000000, _day_at(host, 86677400000000)
    pairs = [[own_ns, day_ns], [own_ns + 10, day_ns + 100 * 10**9]]  # at once after the first iteration has begun
    (host / "facts.json").write_text(f'{{"format": 2, "wall_clock": {pairs}}}')
    assert events(host) == before


def _day_at(host: Path, own_ns: int) -> int:
    text = (host / "tracing.json").read_text()
    clocks: dict[str, int] = json.loads(text)["clocks"]
    return clocks["unix_ns"] + own_ns - clocks["own_ns"]


@pytest.mark.parametrize(
    ("change", "said"),
    [
        ("DROP TABLE TARGET_INFO_SESSION_START_TIME", "its times cannot be placed"),
        ("DELETE FROM TARGET_INFO_SESSION_START_TIME", "its times cannot be placed"),
        ("UPDATE TARGET_INFO_SESSION_START_TIME SET utcEpochNs = 'noon'", "its times cannot be placed"),
        ("ALTER TABLE NVTX_EVENTS DROP COLUMN eventType", "no such column: eventType"),
    ],
)
def test_what_cannot_be_merged_is_said(host: Path, change: str, said: str) -> None:
    with changed(host) as export:
        export.execute(change)
    traces, (problem,) = found(Place(host.parents[1]), of_one_rank())
    assert traces == ()
    assert problem.startswith(f"{host}/report1.sqlite: is not merged: ")
    assert said in problem


def test_one_that_was_cut_off_is_said(host: Path) -> None:
    content = (host / "report1.sqlite").read_bytes()
    for part in (b"not a database, but long enough " * 40, content[: len(content) // 2], b""):
        (host / "report1.sqlite").write_bytes(part)
        (problem,) = found(Place(host.parents[1]), of_one_rank())[1]
        assert problem.startswith(f"{host}/report1.sqlite: is not merged: ")


def test_a_report_without_its_export_says_how_to_make_one(host: Path) -> None:
    (host / "report1.nsys-rep").write_bytes(b"nsys")
    assert found(Place(host.parents[1]), of_one_rank())[1] == ()
    (host / "report1.sqlite").unlink()
    assert found(Place(host.parents[1]), of_one_rank())[1] == (
        f"{host}/report1.nsys-rep: is not merged: `nsys export --type sqlite` makes report1.sqlite of it",
    )
