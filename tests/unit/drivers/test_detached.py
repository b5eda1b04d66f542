"""A worker that is begun by one command and waited for by another."""

from __future__ import annotations

import io
import json
import os
import re
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest
from loopback import prepare

from e2c_dl.archive import layout
from e2c_dl.archive.host_records import HostRecords
from e2c_dl.archive.records import Cause, WorkerOutcome
from e2c_dl.drivers.live import detached
from e2c_dl.errors import InputError, TrainingError


def packed(folder: Path) -> str:
    """As the workflow's launch packs a scenario."""
    argv = (
        f"cd {folder} && find -L ./*.yaml profile.json traces -type f 2>/dev/null | tar -chz --mode=0644 -T - | base64"
    )
    return subprocess.run(argv, shell=True, capture_output=True, text=True, check=True).stdout


def told(folder: Path) -> str:
    (folder / "traces").mkdir(parents=True)
    (folder / "network.yaml").write_text("networks: []\n")
    (folder / "traces" / "up.csv").write_text("1,2\n")
    (folder / "profile.json").write_text("{}\n")
    (folder / "other").write_text("stays")
    return json.dumps({"scenario": packed(folder), "members": [{"_id": "1_1_1"}], "key": "k" * 64})


def test_what_began_goes_on_alone_and_its_last_word_is_waited_for(tmp_path: Path) -> None:
    run_dir = tmp_path / "run"
    run_dir.mkdir()
    command = [sys.executable, "-m", "e2c_dl.drivers.live", "begin", str(run_dir), "1_1_1"]
    begun = subprocess.run(
        command, input=told(tmp_path / "of-the-user"), capture_output=True, text=True, check=False, timeout=60
    )
    assert (begun.returncode, begun.stdout, begun.stderr) == (0, "", "")
    assert json.loads((run_dir / "members.json").read_text()) == [{"_id": "1_1_1"}]
    sent = ["network.yaml", "profile.json", "traces", "up.csv"]
    assert sorted(path.name for path in (run_dir / "scenario").rglob("*")) == sent
    assert (run_dir / "scenario" / "network.yaml").read_text() == "networks: []\n"
    assert (run_dir / "run.key").stat().st_mode & 0o777 == 0o600
    # There is no layers_services.yaml, which only the worker itself can say, after the command that began it has ended.
    said = detached.wait(run_dir, 60.0)
    assert said is not None
    assert re.match(r"failed: .*layers_services.yaml", said)
    waited = subprocess.run([*command[:3], "wait", str(run_dir)], capture_output=True, text=True, check=False)
    assert (waited.returncode, waited.stdout, waited.stderr) == (1, "", f"{said}\n")


@contextmanager
def worker_of(run_dir: Path) -> Iterator[subprocess.Popen[bytes]]:
    """While in it, a process that looks like the worker of ``run_dir``."""
    command = ["e2c_dl.drivers.live", "train", str(run_dir)]
    worker = subprocess.Popen([sys.executable, "-c", "import time; time.sleep(60)", *command])
    try:
        (run_dir / detached.PID).write_text(f"{worker.pid}\n")
        while not detached.goes_on(worker.pid, run_dir):  # until it has become another program
            time.sleep(0.01)
        yield worker
    finally:
        worker.kill()
        worker.wait()


def test_who_goes_on_is_said_to_and_who_ended_well_says_nothing(tmp_path: Path) -> None:
    run_dir = tmp_path / "run-7"
    run_dir.mkdir()
    with worker_of(run_dir) as worker:
        assert detached.wait(run_dir, 0.0) is None
        assert not detached.goes_on(worker.pid, tmp_path / "run-8")
        detached.stop(run_dir)
        assert worker.wait(60) == -signal.SIGTERM
    with pytest.raises(TrainingError, match="ended without an outcome, as one that was killed does"):
        detached.wait(run_dir, 60.0)
    records = HostRecords(run_dir)
    records.reserve_outcome()
    records.write_outcome(WorkerOutcome.of(Cause.FINISHED, rank=0, iterations_done=1, seconds=1.0))
    assert detached.wait(run_dir, 60.0) == ""
    detached.stop(run_dir)  # it has ended: nothing is left to do


@pytest.mark.parametrize("paused", [False, True])
def test_a_worker_that_is_stopped_for_long_is_ended_unless_the_scenario_paused_it(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, paused: bool
) -> None:
    monkeypatch.setattr(detached, "STOPPED_S", 0.3)
    run_dir = tmp_path / "run-7"
    run_dir.mkdir()
    if paused:
        (run_dir / layout.CHANGES).write_text('{"what":"resume"}\n{"what":"pause"}\n')
    with worker_of(run_dir) as worker:
        worker.send_signal(signal.SIGSTOP)
        if paused:
            assert detached.wait(run_dir, 1.0) is None
        else:
            with pytest.raises(TrainingError, match="was stopped by a signal for 0.3 s, and was ended"):
                detached.wait(run_dir, 60.0)
            assert worker.wait(60) == -signal.SIGKILL


def test_what_was_never_begun_says_why(tmp_path: Path) -> None:
    with pytest.raises(TrainingError, match="no worker was started there: the workflow's launch did not come to it"):
        detached.wait(tmp_path, 60.0)
    with pytest.raises(TrainingError, match="it cannot be written: No such file or directory"):
        detached.wait(tmp_path / "gone", 60.0)
    command = [sys.executable, "-m", "e2c_dl.drivers.live", "begin", str(tmp_path), "1_1_1"]
    begun = subprocess.run(command, input="junk", capture_output=True, text=True, check=False)
    assert begun.returncode == InputError.exit_code
    with pytest.raises(TrainingError, match="no worker was started there: begin: standard input is not a JSON object"):
        detached.wait(tmp_path, 60.0)
    with pytest.raises(InputError, match="no worker was started there; name its run directory"):
        detached.stop(tmp_path)
    (tmp_path / detached.PID).write_text("x")
    with pytest.raises(InputError, match="does not hold a process id"):
        detached.stop(tmp_path)


@pytest.mark.parametrize("wrong", ["", "[]", '{"members": []}', "junk", '{"scenario": 1, "members": [], "key": "k"}'])
def test_who_takes_part_and_the_key_come_as_json(tmp_path: Path, wrong: str) -> None:
    with pytest.raises(InputError, match="not a JSON object with 'scenario', 'members' and 'key'"):
        detached.begin(tmp_path, "1_1_1", io.StringIO(wrong))
    assert os.listdir(tmp_path) == []
    with pytest.raises(InputError, match="the scenario cannot be unpacked: .*gzip"):
        detached.begin(tmp_path, "1_1_1", io.StringIO('{"scenario": "anVuaw==", "members": [], "key": "k"}'))


def test_an_earlier_launch_in_the_same_place_is_forgotten(tmp_path: Path) -> None:
    (tmp_path / layout.OUTCOME).write_text("{}")
    (tmp_path / detached.PID).write_text("1\n")
    with pytest.raises(InputError):
        detached.begin(tmp_path, "1_1_1", io.StringIO("junk"))  # not even then is what it left taken for this launch's
    with pytest.raises(TrainingError, match="no worker was started there"):
        detached.wait(tmp_path, 0.0)
    (tmp_path / "run.key").mkdir()  # so that the new one cannot begin
    with pytest.raises(OSError, match="run.key"):
        detached.begin(tmp_path, "1_1_1", io.StringIO(told(tmp_path / "of-the-user")))
    with pytest.raises(TrainingError, match="no worker was started there"):
        detached.wait(tmp_path, 0.0)


def test_repeats_under_plain_e2clab_begin_in_an_empty_place(tmp_path: Path) -> None:
    """All of them have one directory there: what one traced must not stand in the archive of the next."""
    run_dir = tmp_path / "run"
    run_dir.mkdir()
    for name in (layout.SPANS_RAW, layout.PROGRESS, layout.HOST_LINKS, layout.WORKER_LOG):
        (run_dir / name).write_text("of the repeat before\n")
    content = json.loads(told(tmp_path / "of-the-user"))
    content["members"][0]["own_emulation"] = True
    detached.begin(run_dir, "1_1_1", io.StringIO(json.dumps(content)))
    detached.stop(run_dir)
    assert not {layout.SPANS_RAW, layout.PROGRESS, layout.HOST_LINKS} & {path.name for path in run_dir.iterdir()}
    assert (run_dir / layout.WORKER_LOG).read_text().startswith("of the repeat before\n")  # it says why that failed


def test_a_place_that_nobody_made_is_made_and_anothers_is_refused(tmp_path: Path) -> None:
    """Under plain E2Clab no testbed makes it."""
    run_dir = tmp_path / "e2c_dl_run"
    detached.begin(run_dir, "1_1_1", io.StringIO(told(tmp_path / "of-the-user")))
    detached.stop(run_dir)
    assert run_dir.stat().st_mode & 0o777 == 0o700
    (tmp_path / "link").symlink_to(run_dir)
    with pytest.raises(InputError, match="link: is there already, and is not this user's own folder"):
        detached.begin(tmp_path / "link", "1_1_1", io.StringIO("{}"))


def test_who_is_asked_to_stop_while_it_starts_still_says_so(tmp_path: Path) -> None:
    run = prepare(tmp_path, [16, 16], iterations=100_000)
    run.start()
    worker, other = run.processes
    while not blocks(worker.pid, signal.SIGTERM):  # nearly from its first moment on; what it imports takes longer
        assert worker.poll() is None
    worker.terminate()
    other.kill()  # it would wait for a minute
    assert run.wait()[0] == 128 + signal.SIGTERM
    assert run.read(0, layout.OUTCOME)["cause"] == Cause.STOPPED.value


def blocks(pid: int, number: signal.Signals) -> bool:
    status = dict(line.split(":", 1) for line in Path(f"/proc/{pid}/status").read_text().splitlines())
    return bool(int(status["SigBlk"], 16) >> (number - 1) & 1)


def test_a_worker_that_an_earlier_launch_left_to_itself_is_ended_by_the_next(tmp_path: Path) -> None:
    run_dir = tmp_path / "run"
    run_dir.mkdir()
    with worker_of(run_dir) as earlier:
        begun = subprocess.run(
            [sys.executable, "-m", "e2c_dl.drivers.live", "begin", str(run_dir), "1_1_1"],
            input=told(tmp_path / "of-the-user"), capture_output=True, text=True, check=False, timeout=60,
        )  # fmt: skip
        assert (begun.returncode, begun.stderr) == (0, "")
        assert earlier.wait(timeout=10) == -signal.SIGTERM
    said = detached.wait(run_dir, 60.0)
    assert said is not None and said.startswith("failed: ")  # the next one's
