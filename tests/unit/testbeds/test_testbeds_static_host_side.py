"""What is sent to hosts, run as it is there: as a program of any python3, with nothing of this project importable."""

import errno
import json
import os
import subprocess
import sys
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

from e2c_dl.testbeds.base import Access
from e2c_dl.testbeds.machines import host_side
from e2c_dl.testbeds.programs import ssh_argv

PROGRAM = Path(host_side.__file__).read_text()


def told(*words: str) -> subprocess.CompletedProcess:
    argv = [sys.executable, "-I", "-S", "-", *words]
    return subprocess.run(argv, input=PROGRAM, capture_output=True, text=True, check=False)


def test_a_host_says_what_it_is():
    answer = json.loads(told("probe", json.dumps({"python": "/nowhere"})).stdout)
    assert answer["uid"] == os.getuid() and answer["cores"] == len(os.sched_getaffinity(0))
    assert answer["version"] is None
    assert answer["python"] == ".".join(map(str, sys.version_info[:3]))


def test_a_runs_directory_is_its_own_and_goes_with_it(tmp_path):
    place = tmp_path / "e2c-dl-0a-edge-1"
    assert told("begin", "0a", str(place), "").returncode == 0
    assert place.stat().st_mode & 0o777 == 0o700
    assert sorted(part.name for part in place.iterdir()) == ["ansible", "segments.json", "work"]
    again = told("begin", "0a", str(place), "")
    assert again.returncode == 1 and "File exists" in again.stderr
    assert json.loads(told("end", "0a", str(place), "", "[]").stdout) == [f"directory {place}"]
    assert json.loads(told("end", "0a", str(place), "", "[]").stdout) == []


def test_two_that_end_one_run_at_once_do_not_mind(tmp_path):
    place = tmp_path / "e2c-dl-0a-edge-1"
    for _ in range(3):
        told("begin", "0a", str(place), "")
        for number in range(3000):
            (place / "work" / f"{number}").touch()
        with ThreadPoolExecutor(4) as pool:
            answers = list(pool.map(lambda _: told("end", "0a", str(place), "", "[]"), range(4)))
        assert [answer.stderr for answer in answers] == [""] * 4
        assert not place.exists()


def test_what_runs_from_the_directory_is_ended_with_its_children(tmp_path):
    place, other = tmp_path / "mine", tmp_path / "mine-too"
    other.mkdir()
    told("begin", "0a", str(place), "")
    script = "import subprocess, sys; c = subprocess.Popen(['sleep', '1000']); print(c.pid, flush=True); c.wait()"
    ours = subprocess.Popen([sys.executable, "-c", script, f"{place}/work"], stdout=subprocess.PIPE, text=True)
    inside = subprocess.Popen(["sleep", "1000"], cwd=place / "work")
    theirs = subprocess.Popen(["sleep", "1000"], cwd=other)
    child = int(ours.stdout.readline())
    try:
        removed = json.loads(told("end", "0a", str(place), "", "[]").stdout)
        assert {line.split()[1] for line in removed[:-1]} == {str(ours.pid), str(inside.pid), str(child)}
        assert ours.wait(60) == inside.wait(60) == -9
        assert theirs.poll() is None
    finally:
        for process in (ours, inside, theirs):
            process.kill()
            process.wait()
        ours.stdout.close()


def test_what_carries_the_directory_in_its_environment_is_ended_too(tmp_path):
    place = tmp_path / "mine"
    told("begin", "0a", str(place), "")
    marked = subprocess.Popen(["sleep", "1000"], env={"E2CDL_RUN_DIR": f"{place}/work"})
    try:
        assert told("end", "0a", str(place), "", "[]").returncode == 0
        assert marked.wait(60) == -9
    finally:
        marked.kill()
        marked.wait()


@pytest.mark.parametrize("host", ["edge-1", "edge-10"])
def test_who_takes_the_word_to_a_host_from_this_machine_is_not_ended(tmp_path, host):
    place = tmp_path / "e2c-dl-0a-edge-1"
    told("begin", "0a", str(place), "")
    there = str(tmp_path / f"e2c-dl-0a-{host}")
    access = Access(
        name=host, address="10.0.0.1", data_address="", data_device="", user="root", keyfile="/key", port=22,
        python="python3", run_dir=f"{there}/work",
    )  # fmt: skip
    argv = ssh_argv(access, "python3", "-", "end", "0a", there, "", "[]")
    asking = subprocess.Popen([sys.executable, "-c", "import time; time.sleep(1000)", *argv])
    try:
        assert json.loads(told("end", "0a", str(place), "", "[]").stdout) == [f"directory {place}"]
        assert asking.poll() is None
    finally:
        asking.kill()
        asking.wait()


def test_what_ansible_waits_with_may_tidy_up_when_its_program_is_gone(tmp_path):
    place, unpacked = tmp_path / "mine", tmp_path / "unpacked"
    told("begin", "0a", str(place), "")
    unpacked.mkdir()
    script = "import os, subprocess, sys; subprocess.run(['sleep', '1000']); os.rmdir(sys.argv[2])"
    waiting = subprocess.Popen([sys.executable, "-c", script, f"{place}/ansible/module", str(unpacked)])
    try:
        assert told("end", "0a", str(place), "", "[]").returncode == 0
        assert waiting.wait(60) == 0 and not unpacked.exists()
    finally:
        waiting.kill()
        waiting.wait()


def queueing(monkeypatch, *qdiscs):
    monkeypatch.setattr(host_side, "parsed", lambda *argv: list(qdiscs))


@pytest.mark.parametrize(
    ("qdisc", "kind"),
    [
        ({"kind": "fq", "handle": "0:", "root": True}, None),
        ({"kind": "fq", "handle": "8001:", "root": True}, "fq"),
        ({"kind": "fq_codel", "handle": "8001:", "parent": "1:1"}, None),
        ({"kind": "ingress", "handle": "ffff:", "parent": "ffff:fff1"}, "ingress"),
    ],
)
def test_what_has_a_handle_was_put_there_by_somebody(monkeypatch, qdisc, kind):
    queueing(monkeypatch, qdisc)
    assert host_side.shaped_by("eth9") == kind


def test_a_device_takes_as_many_segments_as_before(monkeypatch):
    ran = []
    monkeypatch.setattr(host_side, "parsed", lambda *argv: [])
    monkeypatch.setattr(host_side, "said", lambda *argv: ran.append(argv))
    host_side.unshape("eth9", [["tc", "qdisc", "del", "dev", "eth9", "root"]], 64)
    assert ran[-1] == ("ip", "link", "set", "dev", "eth9", "gso_max_segs", "64")


def test_a_device_that_was_made_and_stays_is_named(monkeypatch):
    monkeypatch.setattr(host_side, "said", lambda *argv: None)
    monkeypatch.setattr(host_side, "shaped_by", lambda device: None)
    monkeypatch.setattr(host_side, "addresses", lambda: {"ifb-eth9": []})
    with pytest.raises(SystemExit, match="ifb-eth9 is still there; ip link del dev ifb-eth9"):
        host_side.unshape("eth9", [["ip", "link", "del", "dev", "ifb-eth9"]], None)


def test_a_device_belongs_to_one_run_at_a_time(tmp_path, monkeypatch):
    monkeypatch.setattr(host_side, "CLAIM", str(tmp_path / "claim."))
    host_side.begin("0a", str(tmp_path / "a"), "eth9")
    with pytest.raises(SystemExit, match="eth9 is shaped by run 0a; `e2c-dl destroy 0a`"):
        host_side.begin("0b", str(tmp_path / "b"), "eth9")
    assert host_side.end("0b", str(tmp_path / "b"), "eth9", "[]") == [f"directory {tmp_path / 'b'}"]
    assert host_side.claimed_by("eth9") == "0a"
    assert host_side.end("0a", str(tmp_path / "a"), "eth9", "[]") == [
        "what shaped eth9", f"directory {tmp_path / 'a'}",
    ]  # fmt: skip
    assert host_side.claimed_by("eth9") is None


def test_a_device_is_not_claimed_before_it_is_on_record_what_it_was_like(tmp_path, monkeypatch):
    def full(*words):
        raise OSError(errno.ENOSPC, "No space left on device")

    monkeypatch.setattr(host_side, "CLAIM", str(tmp_path / "claim."))
    monkeypatch.setattr(json, "dump", full)
    with pytest.raises(OSError, match="No space left"):
        host_side.begin("0a", str(tmp_path / "a"), "eth9")
    assert host_side.claimed_by("eth9") is None
    monkeypatch.setattr(host_side, "unshape", full)
    assert host_side.end("0a", str(tmp_path / "a"), "eth9", "[]") == [f"directory {tmp_path / 'a'}"]


def test_a_device_that_its_last_run_was_still_putting_back_is_not_claimed(tmp_path, monkeypatch):
    told_one_after_the_other = iter([1, 64])
    monkeypatch.setattr(host_side, "CLAIM", str(tmp_path / "claim."))
    monkeypatch.setattr(host_side, "segments", lambda device: next(told_one_after_the_other))
    with pytest.raises(SystemExit, match="eth9 was changed while it was claimed; try again"):
        host_side.begin("0a", str(tmp_path / "a"), "eth9")
    assert host_side.claimed_by("eth9") is None


def test_a_device_that_stays_shaped_keeps_its_claim(tmp_path, monkeypatch):
    monkeypatch.setattr(host_side, "CLAIM", str(tmp_path / "claim."))
    monkeypatch.setattr(host_side, "shaped_by", lambda device: "htb")
    host_side.begin("0a", str(tmp_path / "a"), "eth9")
    with pytest.raises(SystemExit, match="eth9 still has htb on it"):
        host_side.end("0a", str(tmp_path / "a"), "eth9", json.dumps([["true"]]))
    assert host_side.claimed_by("eth9") == "0a"
