"""Program that is sent to a host's ``python3`` before anything of this project is installed there.

::

    probe JSON                       what the host is: nothing is changed
    begin RUN RUN_DIR DEVICE         make RUN_DIR (0700); claim DEVICE ("": none is shaped)
    end   RUN RUN_DIR DEVICE JSON KEEP
                                     end what runs from RUN_DIR, run the commands if DEVICE is RUN's, remove RUN_DIR,
                                     or all in it but KEEP

A claim is a symbolic link, /run/e2c-dl.shaped.DEVICE -> RUN: made at once or not at all, gone after a reboot, as the
queueing is. Standard library only, Python 3.7 or later; what goes wrong is one line on standard error, status 1.
"""

from __future__ import annotations

import json
import os
import shutil
import signal
import subprocess
import sys
import time
from collections.abc import Callable
from typing import Any

CLAIM = "/run/e2c-dl.shaped."
END_WITHIN_S = 20.0
TIDY_WITHIN_S = 2.0
SEGMENTS = "segments.json"
"""In a run's directory: what ``segments`` said of the device before the run."""
QDISCS: dict[str, list[str]] = {"htb": [], "netem": ["delay", "1ms"]}
ARRIVING = ("ingress", "clsact")
SEARCH_PATH = "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin"


def said(*argv: str) -> tuple[int, str, str]:
    """(status, standard output, standard error in one line) of ``argv``; status 127 if there is no such program."""
    try:
        done = subprocess.run(
            argv,
            stdin=subprocess.DEVNULL,  # on standard input comes this very program
            capture_output=True,
            text=True,
            env={**os.environ, "LC_ALL": "C.UTF-8", "PATH": SEARCH_PATH},  # read by us; and ssh's PATH often lacks sbin
            timeout=15,
            check=False,
        )
    except (OSError, subprocess.TimeoutExpired) as error:
        return 127, "", str(error)
    return done.returncode, done.stdout, " ".join(done.stderr.split())


def parsed(*argv: str) -> Any:
    """What ``argv`` prints as JSON; an empty list if it fails."""
    status, out, _ = said(*argv)
    return json.loads(out) if status == 0 and out.strip() else []


def addresses() -> dict[str, list[str]]:
    """Device -> its IPv4 addresses."""
    return {
        device["ifname"]: [a["local"] for a in device["addr_info"] if a.get("family") == "inet"]
        for device in parsed("ip", "-json", "address")
        if "ifname" in device
    }


def qdisc_problem(kind: str) -> str | None:
    """Why the kernel does not have ``kind``; None if it does. Tried in a network of its own, and read back."""
    script = 'tc qdisc add dev lo root "$@" && tc qdisc show dev lo | grep -q "qdisc $1 "'
    status, _, error = said("unshare", "--net", "sh", "-c", script, "sh", kind, *QDISCS[kind])
    return None if status == 0 else error or "it is added, but not there"


def shaped_by(device: str) -> str | None:
    """What somebody has put on ``device``: the kind of queueing; None if all of it is the kernel's own choice.

    That has no handle: so it is there again when ours is removed, which somebody's would not be.
    """
    for qdisc in parsed("tc", "-json", "qdisc", "show", "dev", device):
        if qdisc["kind"] in ARRIVING or (qdisc.get("root") and qdisc["handle"] != "0:"):
            return str(qdisc["kind"])
    return None


def segments(device: str) -> int | None:
    """How many segments ``device`` takes as one frame; None if ``ip`` does not say."""
    told = parsed("ip", "-json", "-details", "link", "show", "dev", device)
    return told[0].get("gso_max_segs") if told else None


def claimed_by(device: str) -> str | None:
    """The run that shapes ``device``; None if none does."""
    try:
        return os.readlink(CLAIM + device)
    except OSError:
        return None


def content(path: str) -> str:
    """What a small file holds; "" if it is not there."""
    try:
        with open(path, encoding="utf-8", errors="replace") as file:
            return file.read().strip()
    except OSError:
        return ""


def version_of(python: str) -> str | None:
    """The version of e2c_dl that ``python`` has; None if it has none, or is none."""
    program = "import importlib.metadata as m; print(m.version('e2c_dl'))"
    status, out, _ = said(python, "-c", program)
    return out.strip() if status == 0 else None


def gpus() -> list[str]:
    """One line per GPU, as nvidia-smi lists them."""
    return [line for line in said("nvidia-smi", "-L")[1].splitlines() if line.startswith("GPU")]


def probe(request: str) -> dict[str, Any]:
    """What this host is, as a JSON object."""
    asked = json.loads(request)
    # sshd's four words: the client's address and port, its own address and port
    client, _, server, _ = (os.environ.get("SSH_CONNECTION") or "   ").split(" ")
    routes = parsed("ip", "-json", "route", "get", client) if client else []
    devices = addresses()
    models = [line.partition(":")[2].strip() for line in content("/proc/cpuinfo").splitlines() if "model name" in line]
    return {
        "hostname": os.uname().nodename,
        "kernel": os.uname().release,
        "uid": os.getuid(),
        "python": ".".join(map(str, sys.version_info[:3])),
        "cores": len(os.sched_getaffinity(0)),
        "memory_bytes": os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES"),
        "cpu_model": models[0] if models else "",
        "gpus": gpus(),
        "ssh_address": server,
        "ssh_device": routes[0].get("dev", "") if routes else "",
        "devices": devices,
        "shaped_by": {device: shaped_by(device) for device in devices},
        "claimed_by": {device: claimed_by(device) for device in devices},
        "qdisc_problems": {kind: qdisc_problem(kind) for kind in QDISCS},
        "version": version_of(asked["python"]) if asked.get("python") else None,
        "congestion_control": content("/proc/sys/net/ipv4/tcp_congestion_control"),
        "slow_start_after_idle": content("/proc/sys/net/ipv4/tcp_slow_start_after_idle") != "0",
        "free_bytes": shutil.disk_usage("/tmp").free,
    }


def begin(run: str, run_dir: str, device: str) -> dict[str, str]:
    """The run's directory and claim. Fails if either is there already."""
    os.mkdir(run_dir, 0o700)  # fails if it is there: in /tmp anybody may have put something in its place
    for part in ("work", "ansible"):
        os.mkdir(os.path.join(run_dir, part), 0o700)
    before = segments(device) if device else None
    with open(os.path.join(run_dir, SEGMENTS), "w", encoding="utf-8") as file:  # shaping lowers it, for good
        json.dump(before, file)
    if device:  # last: whatever is claimed is on record, so that ``end`` can put it back
        claim(run, device, before)
    return {}


def claim(run: str, device: str, segments_before: int | None) -> None:
    """``device`` is that of ``run``. Exits if it is another's, or was while ``segments_before`` was recorded."""
    try:
        os.symlink(run, CLAIM + device)
    except FileExistsError:
        other = claimed_by(device)
        sys.exit(f"{device} is shaped by run {other}; `e2c-dl destroy {other}` where that was started")
    if segments(device) != segments_before:  # a run that ended meanwhile put it back: what is on record was that run's
        os.unlink(CLAIM + device)
        sys.exit(f"{device} was changed while it was claimed; try again")


def end(run: str, run_dir: str, device: str, commands: str, keep: str = "") -> list[str]:
    """What was removed, one line each. Whatever is gone already is passed over; ``keep``, if any, stays."""
    removed = remove_containers(run) + end_processes(run, run_dir)
    if device and claimed_by(device) == run:
        unshape(device, json.loads(commands), json.loads(content(os.path.join(run_dir, SEGMENTS)) or "null"))
        gone_too(CLAIM + device)
        removed.append("what shaped " + device)  # the claim went last: who takes it next finds the device as it was
    if os.path.isdir(run_dir):
        gone = [os.path.join(run_dir, name) for name in os.listdir(run_dir) if name != keep] if keep else [run_dir]
        for path in gone:
            gone_too(path)
        removed += ["directory " + path for path in gone]
    return removed


def remove_containers(run: str) -> list[str]:
    """Containers that a service started for the run, where there is docker at all."""
    found = said("docker", "ps", "--all", "--quiet", "--filter", "label=e2cdl.run=" + run)[1].split()
    said("docker", "rm", "--force", *found)  # of none it fails, which is as well
    return ["container " + name for name in found]


def gone_too(path: str) -> None:
    """Remove a file, a link or a directory; others who end the run at the same time may be quicker."""
    while os.path.lexists(path):
        try:
            shutil.rmtree(path) if os.path.isdir(path) and not os.path.islink(path) else os.unlink(path)
        except FileNotFoundError:
            continue


def unshape(device: str, commands: list[list[str]], segments_before: int | None) -> None:
    """``device`` as it was before the run: ``commands`` and the number of segments that it took. Exits if it is not."""
    if segments_before is not None:
        commands = [*commands, ["ip", "link", "set", "dev", device, "gso_max_segs", str(segments_before)]]
    for command in commands:
        said(*command)  # deleting what is not there fails, which is as well: what stays is looked at below
    left = shaped_by(device)
    if left is not None:
        sys.exit(f"{device} still has {left} on it; tc qdisc del dev {device} {left if left in ARRIVING else 'root'}")
    there = addresses()
    for *deleting, name in commands:
        if deleting[:3] == ["ip", "link", "del"] and name in there:
            sys.exit(f"{name} is still there; ip link del dev {name}")


def end_processes(run: str, run_dir: str) -> list[str]:
    """Kill all that was started from ``run_dir``, and their children; one line each.

    What Ansible has there ends by itself once the program that it waits for is gone, and removes what it unpacked in
    the machine's /tmp; so it gets a moment for that.
    """
    removed: dict[int, str] = {}
    begun_s = time.monotonic()
    while True:
        found = started_from(run, run_dir)
        if not found:
            return list(removed.values())
        waited_s = time.monotonic() - begun_s
        if waited_s > END_WITHIN_S:
            sys.exit(f"cannot be killed: process {', '.join(map(str, sorted(found)))}")
        if waited_s < TIDY_WITHIN_S:
            found = {pid for pid in found if f"{run_dir}/ansible/" not in content(f"/proc/{pid}/cmdline")}
        for pid in sorted(found):  # who began the others goes first, and begins no more
            removed[pid] = f"process {pid} ({content(f'/proc/{pid}/comm')})"
            try:
                os.kill(pid, signal.SIGKILL)  # by pid: pidfd_open is of Python 3.9, and 3.7 may be all there is
            except ProcessLookupError:
                continue
        time.sleep(0.02)


def started_from(run: str, run_dir: str) -> set[int]:
    """Pids that have ``run_dir`` in command line or environment, or are in it, and their children's; not our own.

    Our own are this process, what it descends from, and whoever asks for the end of ``run``: where the run was started
    on this very host, its ssh names ``run_dir`` too, and is no ancestor.
    """
    pids = [int(entry) for entry in os.listdir("/proc") if entry.isdigit()]
    parents = {pid: parent for pid in pids for parent in [parent_of(pid)] if parent is not None}
    own, pid = {pid for pid in pids if asks_for_the_end(pid, run)}, os.getpid()
    while pid > 0:
        own.add(pid)
        pid = parents.get(pid, 0)
    found = {
        pid
        for pid in parents.keys() - own
        if run_dir in content(f"/proc/{pid}/cmdline") + content(f"/proc/{pid}/environ")
        or f"{cwd(pid)}/".startswith(f"{run_dir}/")
    }
    while True:
        more = {pid for pid, parent in parents.items() if parent in found} - found - own
        if not more:
            return found
        found |= more


def asks_for_the_end(pid: int, run: str) -> bool:
    """Whether a process is this program told to ``end`` the run, or what takes that to a host: ssh, a shell."""
    return f" - end {run} " in content(f"/proc/{pid}/cmdline").replace("\0", " ")


def parent_of(pid: int) -> int | None:
    """The parent of a process; None if that is gone, or a zombie."""
    # after the last parenthesis: a command's name may hold some
    state, parent = (*content(f"/proc/{pid}/stat").rpartition(")")[2].split()[:2], "Z", "0")[:2]
    return None if state in ("Z", "X") else int(parent)


def cwd(pid: int) -> str:
    """Where a process is; "" if that cannot be seen."""
    try:
        return os.readlink(f"/proc/{pid}/cwd")
    except OSError:
        return ""


VERBS: dict[str, Callable[..., Any]] = {"probe": probe, "begin": begin, "end": end}

if __name__ == "__main__":
    try:
        print(json.dumps(VERBS[sys.argv[1]](*sys.argv[2:])))
    except OSError as problem:
        sys.exit(str(problem))
