"""What is sent to docker, and what is made of what it says: values, without a daemon."""

from __future__ import annotations

import csv
import subprocess
import sys
from pathlib import Path

import pytest
from click.testing import CliRunner

from e2c_dl.cli.image import image as image_command
from e2c_dl.emulation.backend import Backend
from e2c_dl.errors import InputError, TestbedError
from e2c_dl.scenario.model import Tcp
from e2c_dl.testbeds import catalogue
from e2c_dl.testbeds.base import Probe
from e2c_dl.testbeds.docker import containers, debootstrap, engine, hosts, image, interpreter, probes
from e2c_dl.testbeds.docker.containers import Plan

ODD = "edge-1; rm -rf /"


def plan(backend: Backend = Backend.TC, directory: str = "/run/e2c-dl/0a0b0c0d") -> Plan:
    return Plan(
        run_id="0a0b0c0d",
        directory=Path(directory),
        slot=7,
        image="e2c-dl-host:1",
        backend=backend,
        names=("edge-1", "fog-1"),
        sysctls={"net/ipv4/tcp_rmem": "4096 131072 16777216"},
        memory_bytes=2**30,
    )


def test_a_container_gets_addresses_limits_and_the_runs_id() -> None:
    argv = plan().run_argv("fog-1", 0.5)
    assert argv[:2] == ["run", "--detach"]
    wanted = {
        "--name=e2cdl-0a0b0c0d-fog-1", "--hostname=fog-1", "--label=e2cdl.run=0a0b0c0d", "--env=E2CDL_RUN=0a0b0c0d",
        "--network=e2cdl-0a0b0c0d", "--ip=198.18.7.11", "--cap-add=NET_ADMIN", "--pull=never",
        "--add-host=edge-1:198.19.7.10", "--add-host=fog-1:198.19.7.11", "--cpu-period=5000", "--cpu-quota=2500",
        "--memory=1073741824", "--memory-swap=1073741824", "--sysctl=net.ipv4.tcp_rmem=4096 131072 16777216",
    }  # fmt: skip
    assert wanted <= set(argv)
    assert argv[-4:] == ["--entrypoint=/bin/sh", "e2c-dl-host:1", "/run/e2c-dl/0a0b0c0d/start.sh", "fog-1"]
    assert not any(word.startswith("--cpu") for word in plan().run_argv("fog-1", None))


def test_under_the_relay_there_is_no_data_network() -> None:
    (only,) = plan(Backend.RELAY).networks_argv()
    assert only[-1] == "e2cdl-0a0b0c0d" and "--subnet=198.18.7.0/24" in only and "--gateway=198.18.7.1" in only
    assert str(plan(Backend.RELAY).data_address("fog-1")) == "198.19.0.11/16"  # where the relay makes it
    management, data = plan(Backend.TC).networks_argv()
    assert "--opt=com.docker.network.bridge.name=e2c-0a0b0c0d" in management
    assert data[-2:] == ["--internal", "e2cdl-0a0b0c0d-data"] and "--subnet=198.19.7.0/24" in data
    assert all(len(name) < 16 for name in ("e2c-0a0b0c0d", "e2d-0a0b0c0d"))  # the kernel's limit
    assert plan().connect_argv("fog-1")[-2:] == ["e2cdl-0a0b0c0d-data", "e2cdl-0a0b0c0d-fog-1"]


def test_what_a_container_starts_with_is_one_valid_script(tmp_path: Path) -> None:
    text = plan(directory="/tmp/it's; odd").script_text()
    (tmp_path / "start.sh").write_text(text)
    subprocess.run(["sh", "-n", tmp_path / "start.sh"], check=True)
    assert """cd '/tmp/it'"'"'s; odd'""" in text
    assert "/proc/sys/net/ipv4/tcp_rmem" in text


def test_what_is_in_force_is_read_back() -> None:
    said = containers.in_force("/proc/sys/a:4096\t1 2\n/sys/fs/cgroup/cpu.max:2500 5000\n")
    assert said["/proc/sys/a"] == "4096 1 2"
    assert containers.quota_in_force(said) == (2500, 5000)
    old = "/sys/fs/cgroup/cpu/cpu.cfs_quota_us:{}\n/sys/fs/cgroup/cpu/cpu.cfs_period_us:5000\n"
    assert containers.quota_in_force(containers.in_force(old.format(2500))) == (2500, 5000)
    assert containers.quota_in_force(containers.in_force(old.format(-1))) is None
    assert containers.quota_in_force(containers.in_force("/sys/fs/cgroup/cpu.max:max 100000\n")) is None
    assert containers.quota_in_force({}) is None


def test_a_congestion_control_that_a_container_may_not_have_is_left_to_its_route(tmp_path: Path) -> None:
    ipv4 = tmp_path / "net/ipv4"
    ipv4.mkdir(parents=True)
    for name in ("tcp_rmem", "tcp_wmem"):
        (ipv4 / name).write_text("4096 131072 6291456\n")
    (ipv4 / "tcp_allowed_congestion_control").write_text("reno cubic\n")
    (ipv4 / "tcp_congestion_control").write_text("cubic\n")
    free = hosts.sysctls(Tcp(congestion_control="reno", slow_start_after_idle=False), tmp_path)
    assert free == {
        "net/ipv4/tcp_rmem": "4096 131072 16777216",
        "net/ipv4/tcp_wmem": "4096 131072 16777216",
        "net/ipv4/tcp_congestion_control": "reno",
    }  # neither IPv6 nor the slow start is in this kernel
    other = hosts.sysctls(Tcp(congestion_control="bbr", slow_start_after_idle=False), tmp_path)
    assert "net/ipv4/tcp_congestion_control" not in other


def test_what_is_bound() -> None:
    assert interpreter.outermost(
        ["/opt/venv", "/opt/venv/lib", "/opt/venv2", "/usr", "/usr/lib/python3", "/usr/local", "/", "/src/a", "/src/a"]
    ) == ("/opt/venv", "/opt/venv2", "/src/a", "/usr/local")
    word = interpreter.mount('/a,b "c"', readonly=True).removeprefix("--mount=")
    assert next(csv.reader([word])) == ["type=bind", 'source=/a,b "c"', 'target=/a,b "c"', "readonly"]


@pytest.mark.parametrize(
    ("said", "wanted"),
    [
        (
            "Cannot connect to the Docker daemon at unix:///x. Is the docker daemon running?",
            "sudo systemctl start docker",
        ),
        (
            "Got permission denied while trying to connect to the Docker daemon socket at unix:///x",
            "usermod -aG docker",
        ),
        ("Unable to find image 'x:1' locally", "e2c-dl image build"),
        ("docker: Error response from daemon: Pool overlaps.\nSee 'docker run --help'.", "Pool overlaps."),
        ("fatal error: failed to reserve page summary memory\n\nruntime stack:\n\tpanic.go:1101", "summary memory"),
        ('Get "https://registry-1.docker.io/v2/": dial tcp: lookup registry-1.docker.io: no such host', "the registry"),
        ('error during connect: Get "http://x:2375/v1.24/info": dial tcp: lookup x: no such host', "no daemon answers"),
        ("", "no output"),
    ],
)
def test_what_docker_says_becomes_one_line_with_a_remedy(said: str, wanted: str) -> None:
    line = engine.explained(["run", ODD], said)
    assert wanted in line and "\n" not in line


@pytest.mark.parametrize(
    "said",
    [
        'invalid mount config for type "bind": bind source path does not exist: /tmp/clone',
        f"sh: 9: {sys.executable}: not found",
    ],
)
def test_a_daemon_that_sees_other_files_is_told_with_where_to_keep_them(said: str) -> None:
    line = interpreter._remedied(f"`docker run --rm` failed: {said}")
    assert "/tmp of its own" in line and "below /srv or /home" in line and "image build` makes" not in line
    assert ("/tmp/clone" if "clone" in said else sys.executable) in line


def test_an_older_c_library_is_told_as_such() -> None:
    line = interpreter._remedied("`docker run` failed: python: libc.so.6: version `GLIBC_2.36' not found")
    assert "C library is older" in line and "--from-debootstrap" in line


def test_the_image_carries_a_version() -> None:
    assert image.default_name() == f"e2c-dl-host:{image.version_key()}"
    made = image.Image(name="x", id="1", size_bytes=1, key="of another")
    assert made.stale and not image.Image(name="x", id="1", size_bytes=1, key=None).stale
    for wrong in ("", "--privileged", "a b"):
        with pytest.raises(InputError, match="not an image's name"):
            image.checked_name(wrong)


def test_options() -> None:
    catalogue.testbed("docker", {"image": "mine:1"})
    with pytest.raises(InputError, match="not an image's name"):
        catalogue.testbed("docker", {"image": "-v"})


def os_release(folder: Path, text: str) -> Path:
    file = folder / "os-release"
    file.write_text(text)
    return file


def test_the_base_is_of_this_machines_version(tmp_path: Path) -> None:
    debian = os_release(tmp_path, 'ID=debian\nPRETTY_NAME="Debian GNU/Linux 12"\nVERSION_CODENAME=bookworm\n')
    assert image.default_base(debian) == "debian:bookworm-slim"
    ubuntu = os_release(tmp_path, "ID=ubuntu\nVERSION_CODENAME=noble\n")
    assert image.default_base(ubuntu) == "ubuntu:noble"
    assert "--components=main,universe" in debootstrap.this_machines(ubuntu).argv()
    other = os_release(tmp_path, 'ID=fedora\nPRETTY_NAME="Fedora Linux 40 (A & B)"\n')
    assert image.default_base(other) == "debian:stable-slim"
    with pytest.raises(TestbedError, match=r"Fedora Linux 40 .* no Debian or Ubuntu; .*--from"):
        debootstrap.this_machines(other)


def test_the_mirror_is_the_one_that_apt_uses() -> None:
    lines = [
        "http://security.example/debian bookworm-security main",
        "http://mirror.example/debian/ bookworm contrib",
        "http://mirror.example/debian/ bookworm main",
    ]
    assert debootstrap.mirror(lines, "bookworm") == "http://mirror.example/debian"
    assert debootstrap.mirror(lines, "trixie") is None
    assert debootstrap.mirror(["cdrom:[x]/ bookworm main"], "bookworm") is None


def test_what_stops_a_run() -> None:
    def found(*missing: str) -> tuple[str, ...]:
        names = ("root", "TAP devices", "tc netem", "docker daemon", "image", "containers", "ssh", "torch", "cores")
        return probes.blocking(tuple(Probe(name=name, ok=name not in missing, detail="") for name in names))

    assert found() == found("root") == found("TAP devices") == found("tc netem") == ()
    assert found("tc netem", "root") == ("root",)
    assert found("tc netem", "TAP devices") == ("TAP devices",)
    assert found("image", "cores") == ("image",)


def test_two_bases_are_one_too_many() -> None:
    done = CliRunner().invoke(image_command, ["build", "--from", "debian:12", "--from-debootstrap"])
    assert isinstance(done.exception, InputError) and "name one" in str(done.exception)
