from pathlib import Path

import pytest

from e2c_dl.emulation.backend import Backend
from e2c_dl.memory import memory_available_bytes
from e2c_dl.testbeds.this_machine import probes as machine
from e2c_dl.testbeds.this_machine.preflight import memory_needed, preflight


def problems(*names: str) -> str:
    return "\n".join(preflight(names, Backend.TC))


def test_names() -> None:
    assert "'Edge_1': not a host name" in problems("Edge_1", "fog-1")
    assert "'fog-1': named twice" in problems("fog-1", "fog-1")
    assert "host" not in "".join(line for line in preflight(["edge-1"], Backend.TC) if "hosts on" not in line)


def test_more_hosts_than_memory_allows() -> None:
    fitting = memory_available_bytes() // memory_needed(1)
    names = [f"edge-{i}" for i in range(2 * fitting + 2)]
    assert "ask for at most" in problems(*names)


def test_more_hosts_than_addresses() -> None:
    assert "at most 240" in problems(*(f"edge-{i}" for i in range(241)))


def test_every_problem_is_one_line_with_a_remedy() -> None:
    for line in preflight(["X", "X"], Backend.RELAY):
        assert "\n" not in line and "; " in line


def test_available_memory_is_read(tmp_path: Path) -> None:
    meminfo = tmp_path / "meminfo"
    meminfo.write_text("MemTotal:       200 kB\nMemAvailable:   100 kB\n")
    assert memory_available_bytes(meminfo) == 102_400


def test_tun_that_is_not_there(tmp_path: Path) -> None:
    assert machine.tun_problem(tmp_path / "tun") == "No such file or directory"


@pytest.mark.parametrize("name", ["sh", "ip"])
def test_programs_are_found_in_the_systems_directories_too(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PATH", "/nowhere")
    where = machine.program(name)
    assert where is None or Path(where).name == name
    assert machine.program("no-such-program") is None
