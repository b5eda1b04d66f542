"""What the machine says of itself, and that asking leaves nothing."""

import socket
from pathlib import Path

import pytest

from e2c_dl.emulation.backend import Backend
from e2c_dl.testbeds.this_machine import cpu
from e2c_dl.testbeds.this_machine import probes as machine
from e2c_dl.testbeds.this_machine.preflight import preflight

pytestmark = [pytest.mark.local, pytest.mark.alone]  # alone: what all of this machine has is compared


def groups() -> set[Path]:
    hierarchy = cpu.controller()
    return (
        set()
        if hierarchy is None
        else {path for path in hierarchy.root.iterdir() if path.name.startswith("e2cdl-probe")}
    )


def test_probes_leave_nothing_and_name_remedies() -> None:
    before = {name for _, name in socket.if_nameindex()}, groups()
    found = machine.probes()
    assert ({name for _, name in socket.if_nameindex()}, groups()) == before
    assert len({probe.name for probe in found}) == len(found)
    for probe in found:
        assert probe.detail and "\n" not in probe.detail
        assert bool(probe.remedy) is not probe.ok


def test_probes_and_preflight_agree_about_programs() -> None:
    missing = {probe.name for probe in machine.probes() if not probe.ok} & set(machine.PROGRAMS)
    assert {line.partition(":")[0] for line in preflight(["edge-1"], Backend.TC) if "apt-get" in line} == missing


def test_what_says_netem_is_there_was_tried() -> None:
    by_name = {probe.name: probe for probe in machine.probes()}
    assert by_name["tc netem"].ok == machine.has_netem()
