"""What a host gets for a program of the user's own: wrappers and ssh files, as values and as a shell reads them."""

from __future__ import annotations

import dataclasses
import json
import subprocess
import sys
import tempfile
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from e2c_dl.errors import TestbedError
from e2c_dl.resources import bootstrap_dir
from e2c_dl.testbeds.own_programs import host_side, identity
from e2c_dl.testbeds.own_programs.containers import Container, arguments, start
from e2c_dl.testbeds.own_programs.entered import here
from e2c_dl.testbeds.own_programs.horovodrun import secrets
from e2c_dl.testbeds.own_programs.wrappers import Member, Place, place_of, port_of, recorded

MEMBERS = (Member(name="edge-1", address="10.0.0.1"), Member(name="cloud-1", address="10.0.0.2"))


def place(run_dir: str = "/run/x", **more: object) -> Place:
    made = Place(
        run_dir=run_dir, python="/bin/echo", device="eth1", address="10.0.0.2", members=MEMBERS, port=22022, slots=2,
        environ={"E2CDL_RUN": "ab12"}, of_controller={},
    )  # fmt: skip
    return dataclasses.replace(made, **more)  # type: ignore[arg-type]


def ran(folder: Path, name: str, *argv: str, of: Place) -> str:
    """What the wrapper ``name`` prints, its interpreter being ``echo``."""
    script = folder / name
    script.write_text(of.programs()[name])
    script.chmod(0o755)
    return subprocess.run([str(script), *argv], capture_output=True, text=True, check=True).stdout.strip()


def test_horovodrun_goes_over_the_emulated_network_unless_another_is_named(tmp_path: Path) -> None:
    said = ran(tmp_path, "horovodrun", "-np", "4", "python", "main.py", of=place())
    assert (
        said
        == "-m e2c_dl.testbeds.own_programs.horovodrun --disable-cache --network-interfaces eth1 -np 4 python main.py"
    )
    said = ran(tmp_path, "horovodrun", "--network-interfaces", "eth7", "-np", "4", "a b", of=place())
    assert said == "-m e2c_dl.testbeds.own_programs.horovodrun --disable-cache --network-interfaces eth7 -np 4 a b"


def test_torchrun_knows_where_the_ranks_meet(tmp_path: Path) -> None:
    said = ran(tmp_path, "torchrun", "main.py", "--x", of=place())
    assert said == (
        "-m torch.distributed.run --nnodes 2 --node_rank 1 --nproc_per_node 2 "
        "--master_addr 10.0.0.1 --master_port 29500 --log-dir /run/x/torchrun main.py --x"
    )


def test_every_wrapper_marks_what_it_starts(tmp_path: Path) -> None:
    for name in ("python", "python3", "horovodrun", "torchrun"):
        of = place(python=["/usr/bin/env", "-i", "env"][0])
        script = tmp_path / name
        script.write_text(of.programs()[name].replace("exec /usr/bin/env", "exec /usr/bin/env; #"))
        said = subprocess.run(["sh", str(script)], capture_output=True, text=True, check=True).stdout
        assert "E2CDL_RUN=ab12" in said and "GLOO_SOCKET_IFNAME=eth1" in said


@given(st.text(st.characters(blacklist_categories=["Cs", "Cc"]), min_size=1, max_size=30))
def test_no_value_is_read_as_shell(value: str) -> None:
    text = place(environ={"A": value}).programs()["python"]
    script = text.replace('exec /bin/echo "$@"', 'printf %s "$A"')
    assert subprocess.run(["sh", "-c", script], capture_output=True, check=True).stdout.decode() == value


def test_ssh_knows_the_runs_hosts_alone() -> None:
    files = place().ssh_files("ssh-ed25519 AAAA", "root", "/usr/bin/ssh")
    assert files["known_hosts"] == (
        "[edge-1]:22022,[10.0.0.1]:22022,[cloud-1]:22022,[10.0.0.2]:22022 ssh-ed25519 AAAA\n"
    )
    assert "AuthorizedKeysFile /run/x/ssh/authorized" in files["sshd_config"]
    assert "AllowUsers root" in files["sshd_config"]
    assert "StrictHostKeyChecking yes" in files["config"]


@pytest.mark.parametrize("run_dir", ["/run/x", "/run/a b"])
def test_sshd_reads_its_configuration(tmp_path: Path, run_dir: str) -> None:
    folder = tmp_path / Path(run_dir).name
    folder.mkdir()
    subprocess.run(["ssh-keygen", "-q", "-t", "ed25519", "-N", "", "-f", str(folder / "run.key")], check=True)
    config = tmp_path / "sshd_config"
    config.write_text(place(str(folder)).ssh_files("ssh-ed25519 AAAA", "root", "ssh")["sshd_config"])
    done = subprocess.run(["/usr/sbin/sshd", "-T", "-f", str(config)], capture_output=True, text=True, check=False)
    if "privilege separation directory" in done.stderr:
        pytest.skip("/run/sshd is not on this machine: sshd was never started")
    assert done.returncode == 0, done.stderr
    assert "setenv E2CDL_RUN=ab12" in done.stdout


def test_a_place_is_read_as_it_was_written() -> None:
    assert place_of(json.loads(json.dumps(recorded(place())))) == place()


def test_two_runs_have_ports_of_their_own() -> None:
    ports = {port_of(f"{number:08x}") for number in range(100)}
    assert len(ports) > 95 and all(20000 <= port < 32000 for port in ports)


def test_a_container_is_the_runs_and_in_its_hosts_network() -> None:
    wanted = Container(name="c", image="i:1", gpu=True, volumes=("/data:/data:ro", "/dev/shm:/dev/shm"))
    argv = arguments(wanted, "ab12", "/run/x", {"A": "b c"})
    assert argv[-3:] == ["--entrypoint=sleep", "i:1", "infinity"]
    assert {"--label=e2cdl.run=ab12", "--network=host", "--env=A=b c", "--gpus=all"} < set(argv)
    assert [each for each in argv if each.startswith("--volume")] == [
        "--volume=/run/x:/run/x", "--volume=/dev/shm:/dev/shm", "--volume=/data:/data:ro",
    ]  # fmt: skip


@pytest.mark.parametrize(
    ("answers", "dockerd", "said"),
    [
        ("version) exit 1", None, "no docker daemon answers"),
        (
            "image) exit 1;; pull) echo denied >&2; exit 1",
            None,
            "cannot be had: denied; name",
        ),
        (
            "run) (echo no device; echo \"Run 'docker run --help'\") >&2; exit 1",
            None,
            "does not start: no device",
        ),
        ("version) exit 1", "echo cannot mount; exit 1", "did not start: cannot mount"),
    ],
)
def test_why_there_is_no_container_is_said(tmp_path: Path, answers: str, dockerd: str | None, said: str) -> None:
    docker = tmp_path / "client"
    docker.write_text(f"#!/bin/sh\ncase $1 in {answers};; esac\n")
    daemon = tmp_path / "dockerd"
    daemon.write_text(f"#!/bin/sh\n{dockerd}\n")
    for program in (docker, daemon):
        program.chmod(0o755)
    with pytest.raises(TestbedError, match=said):
        start(Container(name="c", image="i"), str(docker), str(daemon) if dockerd else None, "r", str(tmp_path), {})


def test_a_container_that_an_earlier_deployment_left_makes_room(tmp_path: Path) -> None:
    docker, there = tmp_path / "client", tmp_path / "there"
    docker.write_text(f"#!/bin/sh\ncase $1 in run) mkdir {there};; rm) rmdir {there};; esac\n")
    docker.chmod(0o755)
    for _ in range(2):  # under plain E2Clab its name is the same each time
        start(Container(name="c", image="i"), str(docker), None, "", str(tmp_path), {})
    assert there.is_dir()


def test_a_place_with_a_container_is_read_as_it_was_written() -> None:
    whole = place(container=Container(name="c", image=None, volumes=("/a:/a",)))
    assert place_of(json.loads(json.dumps(recorded(whole)))) == whole


def test_ranks_of_one_host_meet_over_its_loopback(tmp_path: Path) -> None:
    said = ran(tmp_path, "horovodrun", "-np", "2", "python", "main.py", of=place(members=MEMBERS[1:]))
    assert said == "-m e2c_dl.testbeds.own_programs.horovodrun --disable-cache -np 2 python main.py"


def test_a_traced_program_attaches_and_keeps_its_own_path(tmp_path: Path) -> None:
    script = tmp_path / "python"
    script.write_text(place(python="env", traced=True).programs()["python"])
    environ = {"PATH": "/usr/bin:/bin", "PYTHONPATH": "/mine"}
    said = subprocess.run(["sh", str(script)], capture_output=True, text=True, check=True, env=environ).stdout
    assert {"PYTHONPATH=/run/x/bootstrap:/mine", "E2CDL_TRACE=/run/x/traces"} < set(said.splitlines())
    assert "E2CDL_HOSTS=10.0.0.1=edge-1/all,10.0.0.2=cloud-1/all" in said
    assert not place().at_start


@pytest.mark.parametrize(
    ("asked", "done"),
    [
        (
            "cd /a/run; A=/a/run/x E2CDL_RUN_DIR=/a/run python",
            "cd /b/run; A=/b/run/x E2CDL_RUN_DIR=/b/run python",
        ),
        ("cd '/a b'; E2CDL_RUN_DIR='/a b' python", "cd '/b/run'; E2CDL_RUN_DIR='/b/run' python"),
        ("cd /a/run-2; E2CDL_RUN_DIR=/a/run python", "cd /a/run-2; E2CDL_RUN_DIR=/b/run python"),
        ("cd /a/run; python", "cd /a/run; python"),
    ],
)
def test_another_hosts_run_directory_is_this_ones(asked: str, done: str) -> None:
    assert here(asked, "/b/run") == done


@pytest.mark.parametrize(
    ("given", "sees", "said"),
    [
        ({"HOROVOD_LOCAL_RANK": "1", "CUDA_VISIBLE_DEVICES": "4, 6"}, "6 6", ""),
        ({"LOCAL_RANK": "0", "CUDA_VISIBLE_DEVICES": "GPU-ab,MIG-cd"}, "GPU-ab GPU-ab", ""),
        ({"LOCAL_RANK": "2", "CUDA_VISIBLE_DEVICES": "4,6"}, "4 4", "slot 2 has no GPU of its own, as there are 2"),
        ({"CUDA_VISIBLE_DEVICES": "4,6"}, "4,6 4,6", ""),  # no rank
        ({"LOCAL_RANK": "1", "CUDA_VISIBLE_DEVICES": ""}, " ", ""),  # none may be used
        ({"LOCAL_RANK": "-1", "CUDA_VISIBLE_DEVICES": "4"}, "4 4", ""),
    ],
)
def test_a_rank_sees_the_gpu_of_its_slot_and_so_does_what_it_starts(
    given: dict[str, str], sees: str, said: str
) -> None:
    show = "import os; print(os.environ['CUDA_VISIBLE_DEVICES'], end=' ', flush=True)"
    again = f"{show}; import subprocess, sys; subprocess.run([sys.executable, '-c', {show!r}])"
    environ = {"PATH": "/usr/bin", **place(gpu_of_slot=True).at_start, "PYTHONPATH": str(bootstrap_dir())}
    done = subprocess.run(
        [sys.executable, "-c", again], env={**environ, **given}, capture_output=True, text=True, check=True
    )
    assert done.stdout.strip(" ") == sees.strip(" ")
    assert (said in done.stderr) and done.stderr.count("\n") == bool(said)


def test_secrets_of_an_environment_are_known_by_name_or_by_value() -> None:
    environ = {
        "HF_TOKEN": "a",
        "DSN": "postgres://me:hidden-word@host/db",
        "HOME": "/root",
        "MAX_TOKENS": "7",
        "API_KEY": "",
    }
    assert secrets(environ) == ("DSN", "HF_TOKEN")


@given(st.from_regex(r"[A-Z_]{1,8}( [A-Z_]{1,8}){0,3}", fullmatch=True))
def test_ssh_carries_what_is_named(names: str) -> None:
    script = place().ssh_files("ssh-ed25519 AAAA", "root", "/bin/echo")["ssh"]
    for environ, options in (({"E2CDL_SENT": names}, f"-o SendEnv={names} "), ({}, "")):
        said = subprocess.run(["sh", "-c", script, "ssh", "host", "ls"], env=environ, capture_output=True, check=True)
        assert said.stdout.decode() == f"-F /run/x/ssh/config {options}host ls\n"


@pytest.mark.skipif(not Path("/dev/shm").is_dir(), reason="this machine has no /dev/shm, of a file system in memory")
def test_logins_are_led_to_a_run_where_they_are_not_the_machines(monkeypatch: pytest.MonkeyPatch) -> None:
    with tempfile.TemporaryDirectory(dir="/dev/shm") as folder:
        monkeypatch.setattr(host_side, "LOGINS", (folder,))
        assert host_side._has_own_files(place(of_controller={folder: "1:2"}))
        assert not host_side._has_own_files(place(of_controller={folder: identity(folder)}))
        monkeypatch.setattr(host_side, "LOGINS", (folder, f"{folder}/none"))
        assert not host_side._has_own_files(place(of_controller={}))
    monkeypatch.setattr(host_side, "LOGINS", ("/proc",))
    assert not host_side._has_own_files(place(of_controller={}))
