"""The relay, measuring back and tc between real namespaces; how exact they are is the benchmark's matter."""

from __future__ import annotations

import dataclasses
import hashlib
import json
import os
import signal
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path

import pytest
from relay_namespaces import BACK, CLEAN, FORTH, Namespace, config, namespaces, running

from e2c_dl.emulation import tc
from e2c_dl.emulation.link_values import link_to_json
from e2c_dl.emulation.measuring.fidelity import LinkFidelity
from e2c_dl.emulation.measuring.measured import Measured
from e2c_dl.emulation.measuring.quick import requested_round_trip_s
from e2c_dl.emulation.relay.process import RelayProcess
from e2c_dl.errors import EmulationError
from e2c_dl.topology import Host, Link, Topology

pytestmark = [pytest.mark.local, pytest.mark.alone]  # alone: rates and delays are checked


RESPOND = """
import sys
from e2c_dl.emulation.measuring.responder import Responder
with Responder(sys.argv[1], 7000):
    print("up", flush=True)
    sys.stdin.read()
"""
MEASURE = """
import dataclasses, json, sys
from e2c_dl.emulation.measuring.quick import measure_link
from e2c_dl.emulation.link_values import link_from_json
there, back = (link_from_json(link) for link in json.loads(sys.argv[3]))
seen = measure_link(src_address=sys.argv[1], dst_address=sys.argv[2], port=7000, there=there, back=back)
print(json.dumps(dataclasses.asdict(seen)))
"""


def measured(src: Namespace, dst: Namespace, there: Link, back: Link) -> LinkFidelity:
    """198.19.0.1 -> 198.19.0.2, as the two hosts themselves see it."""
    responder = dst.python(RESPOND, "198.19.0.2")
    assert responder.stdout is not None
    assert responder.stdout.readline() == "up\n"
    asked = json.dumps([link_to_json(link) for link in (there, back)])
    try:
        seen = json.loads(src.run(sys.executable, "-c", MEASURE, "198.19.0.1", "198.19.0.2", asked))
    finally:
        responder.communicate()
    expected_s = requested_round_trip_s(there, back)
    return LinkFidelity(
        src="h1",
        dst="h2",
        designed=there,
        requested=there,
        requested_round_trip_s=expected_s,
        measured=Measured(**seen),
    )


SEND = """
import socket, sys
with socket.create_connection((sys.argv[1], 5000)) as s:
    s.sendall(bytes(range(256)) * (int(sys.argv[2]) // 256))
"""
RECEIVE = """
import hashlib, socket, sys
server = socket.create_server(("", 5000))
print("listening", flush=True)
got, total = hashlib.sha256(), 0
connection, _ = server.accept()
while chunk := connection.recv(1 << 20):
    got.update(chunk); total += len(chunk)
print(total, got.hexdigest(), flush=True)
"""


def transfer(src: Namespace, dst: Namespace, address: str, size: int) -> tuple[int, str]:
    receiver = dst.python(RECEIVE)
    assert receiver.stdout is not None
    assert receiver.stdout.readline() == "listening\n"
    try:
        subprocess.run(src.argv(sys.executable, "-c", SEND, address, str(size)), check=True, env=CLEAN, timeout=60)
    except BaseException:
        receiver.kill()
        raise
    finally:
        out, _ = receiver.communicate()
    total, digest = out.split()
    return int(total), digest


def test_bytes_arrive_whole_over_a_slow_lossy_link_and_are_counted(tmp_path: Path) -> None:
    size = 1 << 20
    links = {FORTH: Link(rate_bps=40e6, delay_s=0.002, loss=0.005), BACK: Link(delay_s=0.002)}
    report_path = tmp_path / "report.json"
    with namespaces(2) as (h1, h2), running(config((h1, h2), report_path, links), tmp_path) as relay:
        received, digest = transfer(h1, h2, "198.19.0.2", size)
        corrupt = h2.run("nstat", "-asz", "TcpInCsumErrors", "IpInHdrErrors", "TcpInErrs")
        report = relay.stop()
    assert (received, digest) == (size, hashlib.sha256(bytes(range(256)) * (size // 256)).hexdigest())
    assert all(float(line.split()[1]) == 0 for line in corrupt.splitlines() if not line.startswith("#")), corrupt
    forth = next(link for link in report["links"] if link["src"] == "h1")
    assert forth["dropped_loss"] > 0
    assert forth["bytes"] >= size + 66 * (size // 1448)
    assert forth["segments"] > size // 1460
    assert report["final"] and report["malformed_frames"] == 0 and report["unknown_frames"] == 0
    assert (tmp_path / "err").read_text() == ""


def test_a_killed_relay_leaves_its_last_report_and_no_interface(tmp_path: Path) -> None:
    with namespaces(2) as (h1, h2):
        with running(config((h1, h2), tmp_path / "report.json"), tmp_path) as relay:
            assert relay.poll() is None
            os.kill(relay.pid, signal.SIGKILL)
            report = relay.stop()
            assert relay.poll() == -signal.SIGKILL
        assert not report["final"]
        assert "eth1" not in h1.run("ip", "link")


def test_losing_a_host_leaves_the_others_connected(tmp_path: Path) -> None:
    with namespaces(3) as (h1, h2, h3), running(config((h1, h2, h3), tmp_path / "report.json"), tmp_path) as relay:
        h3.run("ip", "link", "del", "eth1")
        assert transfer(h1, h2, "198.19.0.2", 1 << 16)[0] == 1 << 16
        report = relay.stop()
    assert [lost["host"] for lost in report["hosts_lost"]] == ["h3"]
    assert set(report["overruns"]) == {"h1", "h2"}


def test_what_the_relay_cannot_do_is_one_line(tmp_path: Path) -> None:
    with namespaces(1) as (h1,):
        h1.run("ip", "link", "add", "eth1", "type", "veth", "peer", "name", "other")
        with pytest.raises(EmulationError, match=r"cannot make eth1 on h1") as refused:
            RelayProcess.start(config((h1,), tmp_path / "report.json"), CLEAN, tmp_path / "err")
    assert "\n" not in str(refused.value)
    gone = config((h1,), tmp_path / "report.json")
    with pytest.raises(EmulationError, match=r"of h1 is gone"):
        RelayProcess.start(gone, CLEAN, tmp_path / "err")


def test_through_the_relay_a_link_measures_as_asked(tmp_path: Path) -> None:
    there, back = Link(rate_bps=20e6, delay_s=0.01), Link(rate_bps=5e6, delay_s=0.02)
    links = {FORTH: there, BACK: back}
    with namespaces(2) as (h1, h2), running(config((h1, h2), tmp_path / "report.json", links), tmp_path) as relay:
        checked = measured(h1, h2, there, back)
        relay.stop()
    assert checked.deviations() == ()
    assert len(dataclasses.replace(checked, requested=there.slowed(0.5), requested_round_trip_s=0.02).deviations()) == 2


def on_host(host: Namespace, verb: str, commands: Sequence[tc.Command] = ()) -> None:
    request = json.dumps({"device": "eth1", "commands": commands})
    argv = host.argv(sys.executable, "-m", "e2c_dl.emulation.tc.on_host", verb)
    done = subprocess.run(argv, input=request, capture_output=True, text=True, check=False, env=CLEAN)
    assert done.returncode == 0, done.stderr


def test_htb_alone_gives_the_rate_can_be_applied_again_and_goes_away() -> None:
    there = Link(rate_bps=20e6)
    names = ("h1", "h2")
    hosts = tuple(
        Host(name=n, layer="edge", service="Trainer", service_id=n, role=n, rank=i) for i, n in enumerate(names)
    )
    commands = tc.commands(
        Topology(hosts=hosts, links={names: there}),
        "h1",
        "eth1",
        {"h1": "198.19.0.1", "h2": "198.19.0.2"},
        netem=False,
    )
    with namespaces(2) as (h1, h2):
        h1.run("ip", "link", "add", "eth1", "type", "veth", "peer", "name", "eth1", "netns", str(h2.pid))
        for number, host in enumerate((h1, h2), 1):
            host.run("ip", "address", "add", f"198.19.0.{number}/16", "dev", "eth1")
            host.run("ip", "link", "set", "eth1", "up")
        for _ in range(2):
            on_host(h1, "apply", commands)
        classes = h1.run("tc", "class", "show", "dev", "eth1")
        checked = measured(h1, h2, there, Link())
        for _ in range(2):
            on_host(h1, "clear")
        cleared = h1.run("tc", "qdisc", "show", "dev", "eth1")
    assert "class htb 1:1 root leaf 11: prio 0 rate 20Mbit ceil 20Mbit" in classes
    assert checked.deviations() == ()
    assert "htb" not in cleared
