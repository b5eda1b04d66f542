"""A run is watched by what its hosts write: a culprit is named soon after its onset, and the run is left alone."""

from __future__ import annotations

import json
import os
import re
import select
import signal
import subprocess
from dataclasses import replace
from html import escape
from pathlib import Path

import continued
import pytest
import small_scenario
from rich.console import Console
from synthetic import Ring
from whole_runs import COMMAND

from e2c_dl.archive import layout
from e2c_dl.archive.host_records import HostRecords
from e2c_dl.archive.records import ComputeFacts, HostFacts
from e2c_dl.archive.write import Archive
from e2c_dl.campaign.watch import tails
from e2c_dl.campaign.watch.tails import LocalTail, RemoteTail, tail_of
from e2c_dl.campaign.watch.watch import Watch
from e2c_dl.cli.watch import _Shown as Shown
from e2c_dl.diagnosis.model import Part
from e2c_dl.errors import ArchiveError
from e2c_dl.report import live
from e2c_dl.report.live import Now
from e2c_dl.testbeds import registry
from e2c_dl.testbeds.base import Access
from e2c_dl.testbeds.registry import RegisteredRun
from e2c_dl.topology import Link
from e2c_dl.trace.model import Phase, RankTrace, Trace
from e2c_dl.trace.recording.growing import GrowingSpans
from e2c_dl.trace.recording.span_log import read_spans

RUN_ID = "0badcafe"
LAYERS = """\
environment:
  g5k: {cluster: paradoxe}
layers:
- name: edge
  services:
  - {name: Trainer, quantity: 4, env: {strategy: allreduce}}
"""
NETWORK = "networks:\n- {src: edge.*, dst: edge.*, delay: 2ms, rate: 40mbit}\n"
LINK = Link(rate_bps=40e6, delay_s=0.002)
RING = Ring(compute_s=(0.05,) * 4, links=(LINK,) * 4, bucket_bytes=(200_000, 100_000), compute_noise=0.02)
ONSET = 12
LAST = 12


@pytest.fixture(scope="module")
def trace() -> Trace:
    """Healthy at first; from iteration ONSET on the host edge-2 computes three times slower."""
    return continued.changing(RING, replace(RING, slow_hosts={1: 3.0}, iterations=8), ONSET)


@pytest.fixture
def run(tmp_path: Path) -> RegisteredRun:
    """A run that is up, this process its controller, whose hosts write nothing by themselves."""
    archive = Archive.create(tmp_path / "archive", RUN_ID, started="2025-01-31T10:00:00+00:00")
    archive.record(scenario="small", emulation={"backend": "relay"})
    scenario = archive.path / layout.SCENARIO
    scenario.mkdir()
    small_scenario.writer(scenario)(layers=LAYERS, network=NETWORK)
    begun = registry.begin(RUN_ID, scenario="small", archive=str(archive.path), base=tmp_path / "state")
    return registry.changed(begun, hosts=tuple(access(begun.directory / name) for name in names()))


def names() -> list[str]:
    return [f"edge-{number}" for number in range(1, 5)]


def access(run_dir: Path) -> Access:
    run_dir.mkdir()
    return Access(
        name=run_dir.name, address="127.0.0.1", data_address="127.0.0.1", data_device="lo", user="root", keyfile="none",
        port=22, python="python3", run_dir=str(run_dir),
    )  # fmt: skip


def write(run: RegisteredRun, trace: Trace, iteration: int) -> None:
    """What every host has written when its iteration ``iteration`` has ended."""
    for rank in trace.ranks:
        path = Path(run.directory / rank.host)
        (path / layout.SPANS_RAW).write_bytes(continued.until(rank, iteration))
        HostRecords(path).write_clock(rank.clock)
        HostRecords(path).write_facts(HostFacts(cpu_model="one", cores=1, compute=ComputeFacts()))


def culprits(now: Now | None) -> list[str]:
    assert now is not None
    assert now.diagnosis is not None, now.not_yet
    return [str(finding.element) for finding in now.diagnosis.report.culprits]


def test_a_culprit_is_named_within_five_iterations_of_its_onset(run: RegisteredRun, trace: Trace) -> None:
    with Watch(run, last=LAST) as watch:
        seen = {}
        for iteration in range(4, 20):
            write(run, trace, iteration)
            seen[iteration] = watch.look()
    named = [iteration for iteration, now in seen.items() if culprits(now)]
    assert named
    assert ONSET <= named[0] <= ONSET + 4  # its fifth slow iteration is ONSET + 4
    assert named == list(range(named[0], 20))
    assert culprits(seen[19]) == ["edge-2"]
    last = seen[19]
    assert last is not None
    assert (last.first, last.stop, last.over) == (8, 20, True)  # the trace says that training is over
    assert list(last.since.values()) == [named[0] + 1]
    assert re.match(
        "Iterations 8 to 19. What slowed these iterations down: host edge-2 computes 3.0 × slower than designed "
        rf"since iteration {ONSET} .*Named: host edge-2 since iteration {named[0] + 1}",
        live.headline(last),
    )
    assert f"since iteration {ONSET} (second" in last.diagnosis.report.culprits[0].evidence
    activity = last.diagnosis.activity if last.diagnosis else None
    assert activity is not None
    assert activity.lanes[0].iterations["iteration"].tolist() == list(range(8, 20))


def test_what_cannot_be_judged_yet_is_said(run: RegisteredRun, trace: Trace, tmp_path: Path) -> None:
    with Watch(run, last=LAST) as watch:
        first = watch.look()
        assert first is not None
        assert first.not_yet == (
            "edge-1, edge-2, edge-3, edge-4: no trace yet: it does not train, or cannot be reached.",
        )
        write(run, trace, 1)
        second = watch.look()
        assert second is not None
        assert second.not_yet == ("edge-1 has finished 2 iterations; a verdict needs 4 of every worker.",)
        assert second.diagnosis is None
        assert watch.look() is None  # nothing new
        write(run, trace, 7)
        third = watch.look()
    assert third is not None
    assert third.diagnosis is not None
    for now in (second, third):
        live.write_page(now, tmp_path / "now.html")
        page = (tmp_path / "now.html").read_text()
        assert '<meta http-equiv="refresh"' in page
        assert escape(live.headline(now)) in page
        console = Console(record=True, width=100, file=(tmp_path / "console").open("w"))
        console.print(live.on_terminal(now))
        assert live.headline(now)[:40] in console.export_text()


def test_the_page_of_a_run_that_is_over_does_not_load_itself_anew(
    run: RegisteredRun, trace: Trace, tmp_path: Path
) -> None:
    write(run, trace, 19)
    with Watch(run, last=LAST) as watch:
        now = watch.look()
    assert now is not None
    assert now.over
    live.write_page(now, tmp_path / "now.html")
    assert 'http-equiv="refresh"' not in (tmp_path / "now.html").read_text()


def test_watching_ends_with_the_run(run: RegisteredRun, trace: Trace) -> None:
    with Watch(run, last=LAST) as watch:
        write(run, trace, 7)
        assert watch.look() is not None
        registry.save(replace(run, controller_start=1))  # another process by now
        now = watch.look()
    assert now is not None
    assert now.over


def started(run: RegisteredRun, *options: str) -> subprocess.Popen[str]:
    environ = {**os.environ, registry.STATE_VARIABLE: str(run.directory.parent), "PYTHONUNBUFFERED": "1"}
    return subprocess.Popen([*COMMAND, "watch", *options], env=environ, stdout=subprocess.PIPE, text=True)


def test_the_command_says_what_can_be_said_and_names_the_archive(run: RegisteredRun, trace: Trace) -> None:
    write(run, trace, 17)
    with started(run, "--once") as command:  # the only run that is up
        out, _ = command.communicate()
    assert command.returncode == 0
    assert out.startswith("Iterations 6 to 17. What slowed these iterations down: host edge-2 computes")
    assert out.splitlines()[-1] == f"archive  {run.archive}"


def test_the_verdict_as_json_is_as_the_page_about_it_says(run: RegisteredRun, trace: Trace, repository: Path) -> None:
    write(run, trace, 17)
    with started(run, "--once", "--json") as command:
        out, _ = command.communicate()
    (found,) = map(json.loads, out.splitlines())
    (row,) = re.findall(r"^\| `watch` \|(.*)$", (repository / "docs/json.md").read_text(), re.MULTILINE)
    assert set(found) == set(re.findall(r"`(\w+)`", row))
    assert (found["run"], found["first"], found["stop"], found["judged"]) == (RUN_ID, 6, 18, True)
    assert [(each["element"], each["named_since"]) for each in found["culprits"]] == [("edge-2", 18)]


def test_a_line_is_written_when_the_same_element_is_named_for_something_else(
    run: RegisteredRun, trace: Trace, capsys: pytest.CaptureFixture[str]
) -> None:
    write(run, trace, 17)
    with Watch(run, last=LAST) as watch:
        now = watch.look()
    assert now is not None and now.diagnosis is not None
    report = now.diagnosis.report
    (culprit,) = report.culprits
    other = replace(now.diagnosis, report=replace(report, culprits=(replace(culprit, part=Part.STEP),)))
    with Shown(None) as shown:
        for each in (now, now, replace(now, diagnosis=other)):
            shown.show(each)
    assert ["takes its steps" in line for line in capsys.readouterr().out.splitlines()] == [False, True]


def test_ctrl_c_ends_the_watching_alone(run: RegisteredRun, trace: Trace) -> None:
    write(run, trace, 7)
    before = sorted(path for path in run.directory.rglob("*"))
    with started(run, run.id) as command:
        assert command.stdout is not None
        assert command.stdout.readline().startswith("Iterations 0 to 7. No culprit")
        command.send_signal(signal.SIGINT)
        command.communicate()
    assert command.returncode == 130
    assert sorted(path for path in run.directory.rglob("*")) == before


@pytest.mark.parametrize("piece", [1, 63, 100, 100_000])
def test_spans_grow_however_they_are_cut(trace: Trace, piece: int, tmp_path: Path) -> None:
    rank: RankTrace = trace.ranks[1]
    content = continued.until(rank, 1)
    grown = GrowingSpans("edge-2")
    for begin in range(0, len(content), piece):
        grown.add(content[begin : begin + piece])
    assert grown.facts is not None
    assert (grown.facts.rank, grown.facts.host, grown.finished, grown.over) == (1, "edge-2", 2, False)
    (tmp_path / "spans.bin").write_bytes(content)
    assert grown.spans.tobytes() == read_spans(tmp_path / "spans.bin")[1].tobytes()
    began_ns = grown.began_ns
    grown.forget_before(1)
    assert grown.spans["iteration"].min() >= -1
    assert not (grown.spans["iteration"] == 0).any()
    assert (grown.spans["phase"] == Phase.BACKWARD).any()
    assert grown.began_ns == began_ns


def test_what_is_no_trace_is_refused() -> None:
    with pytest.raises(ArchiveError, match="edge-1: not a trace"):
        GrowingSpans("edge-1").add(b"<html>")


def test_only_new_bytes_are_read_and_links_are_not_followed(tmp_path: Path) -> None:
    tail = LocalTail(tmp_path)
    assert tail.more() == b""
    (tmp_path / layout.SPANS_RAW).write_bytes(b"one")
    assert (tail.more(), tail.more()) == (b"one", b"")
    with (tmp_path / layout.SPANS_RAW).open("ab") as file:
        file.write(b" two")
    assert tail.more() == b" two"
    (tmp_path / layout.CLOCK).symlink_to("/etc/passwd")
    assert tail.file(layout.CLOCK) is None
    assert tail.file("absent") is None


def test_hosts_elsewhere_are_followed_over_ssh(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Here ``ssh`` is a shell: the same programs, without a network."""
    monkeypatch.setattr(tails.programs, "ssh_argv", lambda access, *argv: list(argv))
    here = access(tmp_path / "edge-1")
    tail = tail_of(here, tmp_path / "state")
    assert isinstance(tail, RemoteTail)
    assert isinstance(tail_of(here, tmp_path), LocalTail)
    path = Path(here.run_dir) / layout.SPANS_RAW
    path.write_bytes(b"one")
    try:
        assert came(tail, 3) == b"one"
        assert tail._session is not None
        tail._session.kill()  # as a lost connection does
        tail._session.wait()
        with path.open("ab") as file:
            file.write(b" two")
        assert came(tail, 4) == b" two"
        assert tail.file(layout.SPANS_RAW) == b"one two"
        assert tail.file("absent") is None
    finally:
        tail.close()
    assert tail._session is None


def came(tail: RemoteTail, count: int) -> bytes:
    """The next ``count`` bytes, waited for."""
    found = tail.more()
    while len(found) < count:
        assert tail._session is not None
        select.select([tail._session.stdout], [], [])
        found += tail.more()
    return found
