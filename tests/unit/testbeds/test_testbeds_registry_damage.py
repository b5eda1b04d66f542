"""A state.json that cannot be read concerns its own run alone: others go on, and it is named and ended by its id."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

from e2c_dl.errors import TestbedError
from e2c_dl.testbeds import catalogue, registry
from e2c_dl.testbeds.base import Access

SOUND, DAMAGED = "0000000a", "0000000b"
HOST = Access(
    name="edge-1", address="127.0.0.1", data_address="198.19.0.10", data_device="eth1", user="nobody",
    keyfile="/dev/null", port=9, python="/usr/bin/python3", run_dir="/dir",
)  # fmt: skip


def state_of(base: Path, **fields: object) -> str:
    """A sound state.json with other ``fields``; those that are None are left out."""
    text = json.loads((base / SOUND / "state.json").read_text())
    return json.dumps({name: value for name, value in (text | fields).items() if value is not None})


DAMAGE = {
    "cut off": (lambda base: state_of(base)[:60], "is not valid JSON"),
    "empty": (lambda base: "", "is not valid JSON"),
    "no JSON": (lambda base: "\0" * 40, "is not valid JSON"),
    "no object": (lambda base: "[]", "Expected `object`, got `array`"),
    "a wrong type": (lambda base: state_of(base, controller_pid="1"), "got `str` - at `$.controller_pid`"),
    "a wrong host": (lambda base: state_of(base, hosts=[{"name": "a"}]), "missing required field"),
    "no slot": (lambda base: state_of(base, slot=None), "missing required field `slot`"),
    "a later version": (lambda base: state_of(base, format=99), "of format 99, not 1: written by another version"),
    "an earlier version": (lambda base: state_of(base, format=None), "of no format: written by another version"),
    "nested": (lambda base: '{"a": ' * 100_000, "is not valid JSON"),
}  # fmt: skip


@pytest.fixture(params=[*DAMAGE, "a directory", "no UTF-8"])
def base(request: pytest.FixtureRequest, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A registry with a sound run that is up, and one whose state is damaged."""
    monkeypatch.setenv(registry.STATE_VARIABLE, str(tmp_path))
    registry.changed(registry.begin(SOUND, scenario="s", base=tmp_path), hosts=(HOST,))
    file = tmp_path / DAMAGED / "state.json"
    file.parent.mkdir()
    if request.param == "a directory":
        file.mkdir()
    elif request.param == "no UTF-8":
        file.write_bytes(b"\xff\xfe{")
    else:
        file.write_text(DAMAGE[request.param][0](tmp_path))
    request.node.why = DAMAGE.get(request.param, ("", ""))[1]
    return tmp_path


def called(*argv: str) -> subprocess.CompletedProcess[str]:
    program = "import sys; sys.argv[0] = 'e2c-dl'; from e2c_dl.cli.main import main; main()"
    return subprocess.run([sys.executable, "-c", program, *argv], capture_output=True, text=True, check=False)


def test_other_runs_go_on_and_it_is_named_in_one_line(base: Path, request: pytest.FixtureRequest) -> None:
    assert [run.id for run in registry.runs()] == [SOUND]
    assert registry.up(None).id == SOUND
    assert registry.dead_runs() == ()
    assert registry.begin("0000000c", scenario="s", choose_slot=lambda taken: len(taken) + 1).slot in (2, 3)
    (line,) = registry.broken().values()
    assert line.startswith(f"{base / DAMAGED}/state.json: ") and request.node.why in line
    assert line.endswith(f"; `e2c-dl destroy {DAMAGED}` ends that run") and "\n" not in line
    with pytest.raises(TestbedError) as raised:
        registry.load(DAMAGED)
    assert str(raised.value) == line
    with pytest.raises(TestbedError) as raised:
        registry.up(DAMAGED)
    assert str(raised.value) == line


def test_it_is_ended_from_its_id_alone(base: Path) -> None:
    child = subprocess.Popen(["sleep", "600"], env={**os.environ, registry.RUN_VARIABLE: DAMAGED})
    try:
        removed = catalogue.destroy(DAMAGED)
        assert child.wait(60) == -9
    finally:
        child.kill()
        child.wait()
    assert f"directory {base / DAMAGED}" in removed
    assert registry.broken() == {}
    assert [run.id for run in registry.runs()] == [SOUND]


def test_commands_name_it_and_go_on(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv(registry.STATE_VARIABLE, str(tmp_path))
    registry.changed(registry.begin(SOUND, scenario="s"), hosts=(HOST,))
    (tmp_path / DAMAGED).mkdir()
    (tmp_path / DAMAGED / "state.json").write_text("{")
    for argv in (["destroy"], ["logs"], ["shell", "edge-1", "true"], ["emulate", "show"], ["deploy", "none", "none"]):
        done = called(*argv)
        named = [line for line in done.stderr.splitlines() if line.startswith(f"{DAMAGED}: ")]
        assert (len(named), "Traceback" in done.stderr) == (1, False), done.stderr
    assert called("logs", SOUND).stderr == ""
    assert called("destroy", DAMAGED).stdout.startswith(f"{DAMAGED}: removed\n")
    assert called("destroy").stderr == ""


@pytest.mark.parametrize("state", ['{"testbed": "static", "hosts": 1}', '{"format": 99, "testbed": "static"}'])
def test_of_static_hosts_that_are_not_known_any_more_that_is_said(tmp_path: Path, state: str) -> None:
    (tmp_path / DAMAGED).mkdir()
    (tmp_path / DAMAGED / "state.json").write_text(state)
    removed = catalogue.destroy(DAMAGED, tmp_path)
    assert removed[0] == f"directory {tmp_path / DAMAGED}"
    assert removed[1].startswith(f"not known: what it has on its machines, /tmp/e2c-dl-{DAMAGED}-*: ")


def test_what_names_another_processs_pid_without_its_start_is_no_controller(tmp_path: Path) -> None:
    (tmp_path / DAMAGED).mkdir()
    (tmp_path / DAMAGED / "state.json").write_text('{"controller_pid": 999999999}')
    assert registry.live_controller(tmp_path / DAMAGED) is None
